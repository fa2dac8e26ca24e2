// What changes elsewhere while the page is open: server-sent events, read by one tab of the browser for all its tabs, so
// that the few connections that a browser opens to a server stay free for questions.

import { changes, forgetPalace } from "./api.js";

const FIRST_WAIT = 500, LONGEST_WAIT = 30_000; // milliseconds between two attempts
const STEADY = 5_000; // a stream that lived so long was a good one: the next attempt comes soon

/**
 * Follow the changes for as long as the page is open. `told` gets the name and the data of each event, also `missed`
 * after a break; `connected` gets whether changes arrive.
 */
export function follow(told, connected) {
  const others = new BroadcastChannel("sense-memory-live");
  const hand = (name, data) => { if (name === "change" || name === "missed") forgetPalace(); if (name === "connected") connected(data); else told(name, data); };
  others.addEventListener("message", ({ data: [name, data] }) => hand(name, data));
  const all = (name, data) => { others.postMessage([name, data]); hand(name, data); };
  const read = () => reading(all);
  if (navigator.locks) navigator.locks.request("sense-memory-live", read);
  else read();
}

async function reading(all) {
  let wait = FIRST_WAIT, isAgain = false;
  for (;;) {
    const begun = performance.now();
    try {
      const response = await changes();
      if (response.status === 401) { all("connected", false); return; } // another browser has the page now
      if (response.ok) await events(response.body, all, isAgain);
    } catch { /* the server has ended, or the connection broke: tried again below */ }
    all("connected", false);
    isAgain = true; // whatever changes until the next stream is missed
    wait = performance.now() - begun > STEADY ? FIRST_WAIT : Math.min(LONGEST_WAIT, wait * 2);
    await pause(wait * (0.75 + Math.random() / 2));
  }
}

/** Hand over the events of a stream until it ends. From `hello` on nothing is missed; what came before it is, `isAgain`. */
async function events(body, all, isAgain) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const frames = (held + value).split("\n\n");
    held = frames.pop();
    for (const frame of frames) {
      const name = /^event: (\w+)$/m.exec(frame)?.[1], data = /^data: (.*)$/m.exec(frame)?.[1];
      if (name === "hello") {
        all("connected", true);
        if (isAgain) all("missed", {});
      } else if (name) all(name, JSON.parse(data));
    }
  }
}

/** Wait; a page that becomes visible again waits no longer. */
function pause(milliseconds) {
  return new Promise((done) => {
    const end = () => { clearTimeout(timer); document.removeEventListener("visibilitychange", end); done(); };
    const timer = setTimeout(end, milliseconds);
    document.addEventListener("visibilitychange", end);
  });
}
