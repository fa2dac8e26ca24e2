// Charts, drawn by uPlot in the colours of the page; the page gives the same facts in words beside each chart.

import { BOUNDS, STATES, fallsTo, relevanceThen } from "./decay.js";
import { day } from "./dom.js";

const DAY = 86400;

/** The colours of the page, by name. */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  const names = [...STATES, "ink", "muted", "line", "surface", "accent", "against"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

const FONT = "12px system-ui, sans-serif";

/** Keep a chart as wide as its container, and in the colours of the page. */
function kept(place, make) {
  let chart = null;
  const draw = () => {
    chart?.destroy();
    chart = make(Math.max(200, place.clientWidth));
  };
  const watch = new ResizeObserver(() => {
    if (!place.isConnected) { watch.disconnect(); document.removeEventListener("painted", draw); chart?.destroy(); return; }
    if (!chart || chart.width !== place.clientWidth) draw();
  });
  watch.observe(place);
  document.addEventListener("painted", draw);
}

/** How many memories are in each state over time, one area upon the other. */
export function stacked(place, times, counts) {
  const sums = counts.map((_, index) => times.map((_, at) => counts.slice(0, index + 1).reduce((sum, one) => sum + one[at], 0)));
  kept(place, (width) => {
    const paint = colours();
    const series = STATES.map((state, index) => ({ stroke: paint.surface, width: 1, fill: paint[state], points: { show: false }, data: sums[index] })).reverse();
    return new uPlot({
      width, height: place.clientHeight || 72, padding: [4, 0, 0, 0], legend: { show: false }, cursor: { show: false }, pxAlign: 0,
      scales: { x: { time: true }, y: { range: (_, __, most) => [0, Math.max(1, most)] } },
      axes: [{ show: false }, { show: false }],
      series: [{}, ...series.map(({ data, ...options }) => options)],
    }, [times, ...series.map(({ data }) => data)], place);
  });
}

/** The life of one memory: its relevance from its first day to a year from now, and the bounds of the states. */
export function life(place, memory, now, edits) {
  const begin = Math.min(memory.created, memory.accessed, now - 14 * DAY);
  const until = Math.max(now + 90 * DAY, Math.min(now + 730 * DAY, fallsTo(memory, BOUNDS.forgotten) + 20 * DAY));
  const times = [...new Set([...Array.from({ length: 320 }, (_, index) => begin + ((until - begin) * index) / 319), memory.accessed - 1, memory.accessed, now])].filter((time) => time >= begin).sort((one, other) => one - other);
  const values = times.map((time) => relevanceThen(memory, time));
  const past = values.map((value, index) => (times[index] <= now ? value : null));
  const ahead = values.map((value, index) => (times[index] >= now ? value : null));
  kept(place, (width) => {
    const paint = colours();
    const marks = {
      hooks: {
        drawClear: [(chart) => {
          const { left, top, width: wide, height } = chart.bbox, pen = chart.ctx;
          const bounds = [[BOUNDS.active, Infinity, "active"], [BOUNDS.fading, BOUNDS.active, "fading"], [0, BOUNDS.fading, "forgotten"]];
          pen.save();
          for (const [low, high, state] of bounds) {
            const above = high === Infinity ? top : chart.valToPos(high, "y", true), below = chart.valToPos(low, "y", true);
            pen.globalAlpha = 0.09;
            pen.fillStyle = paint[state];
            pen.fillRect(left, above, wide, below - above);
          }
          pen.globalAlpha = 1;
          const at = chart.valToPos(now, "x", true);
          pen.strokeStyle = paint.ink;
          pen.setLineDash([3, 4]);
          pen.beginPath();
          pen.moveTo(at, top);
          pen.lineTo(at, top + height);
          pen.stroke();
          pen.restore();
        }],
        draw: [(chart) => {
          const pen = chart.ctx, { top, height } = chart.bbox;
          pen.save();
          pen.fillStyle = paint.accent;
          for (const time of edits) {
            if (time < begin) continue;
            const at = chart.valToPos(time, "x", true);
            pen.beginPath();
            pen.moveTo(at, top + height - 9);
            pen.lineTo(at + 5, top + height);
            pen.lineTo(at - 5, top + height);
            pen.fill();
          }
          pen.restore();
        }],
      },
    };
    return new uPlot({
      width, height: 210, padding: [8, width < 480 ? 28 : 40, 0, 0], legend: { show: false }, cursor: { show: false }, pxAlign: 0, plugins: [marks],
      scales: { x: { time: true }, y: { range: (_, __, most) => [0, Math.max(1.02, most)] } },
      axes: [
        { stroke: paint.muted, font: FONT, size: 30, grid: { show: false }, ticks: { show: false }, values: (_, ticks) => ticks.map((tick) => (width < 480 ? day(tick).replace(/^\d+ /, "") : day(tick))), space: width < 480 ? 70 : 110 },
        { stroke: paint.muted, font: FONT, grid: { stroke: paint.line, width: 1 }, ticks: { show: false }, size: 44, splits: () => [0, 0.1, 0.3, 0.5, 1].filter((_, index) => index !== 3), values: (_, ticks) => ticks.map((tick) => `${Math.round(tick * 100)} %`) },
      ],
      series: [{}, { stroke: paint.accent, width: 2, points: { show: false } }, { stroke: paint.accent, width: 2, dash: [6, 5], points: { show: false } }],
    }, [times, past, ahead], place);
  });
}
