// How a memory fades: the formula of sense-memory v2, as `palace/lifecycle.py` has it. A test compares the two.

const DAY = 86400;
export const BOUNDS = { active: 0.3, fading: 0.1, forgotten: 0.01 };
export const STATES = ["active", "fading", "forgotten", "dissolved"];
export const GLYPHS = { active: "●", fading: "◐", forgotten: "○", dissolved: "◌" };

/** A row of the API as an object. */
export function memoryOf(row) {
  const [path, excerpt, relevance, halflife, accessed, created, connections, contradicts, isSuperseded, written = created, used = 0, themes = []] = row;
  const [domain, facet] = path.split("/");
  return { path, domain, facet, key: path.slice(domain.length + facet.length + 2), excerpt, relevance, halflife, accessed, created, connections, contradicts, isSuperseded, written, used, themes };
}

/** The factor of its links, and of the relevance that it had when it was last used. */
function factorOf(memory) {
  return memory.relevance * (1 + memory.connections * 0.1) * 0.5 ** memory.contradicts;
}

/** The relevance at a time, seconds since 1970, from the last access on. */
export function relevanceAt(memory, time) {
  const days = Math.max(0, time - memory.accessed) / DAY;
  let decay = 0.5 ** (days / memory.halflife);
  if (memory.isSuperseded) decay **= 4;
  return decay * factorOf(memory);
}

/** As `relevanceAt`; before the last access, what the memory would have had from its first day on; null before that. */
export function relevanceThen(memory, time) {
  if (time >= memory.accessed) return relevanceAt(memory, time);
  return time < memory.created ? null : 0.5 ** ((time - memory.created) / DAY / memory.halflife);
}

export function stateOf(relevance) {
  if (relevance > BOUNDS.active) return "active";
  if (relevance >= BOUNDS.fading) return "fading";
  return relevance >= BOUNDS.forgotten ? "forgotten" : "dissolved";
}

/** When a relevance falls to a bound, seconds since 1970. */
export function fallsTo(memory, bound) {
  const rate = (memory.isSuperseded ? 4 : 1) / (memory.halflife * DAY);
  return memory.accessed + Math.log2(factorOf(memory) / bound) / rate;
}

/** A span of time ahead, in words: "in 3 weeks". */
function ahead(span) {
  const days = span / DAY;
  const [value, word] = days < 14 ? [days, "day"] : days < 60 ? [days / 7, "week"] : days < 730 ? [days / 30.44, "month"] : [days / 365.25, "year"];
  const whole = Math.round(value);
  if (days < 1) return "within a day";
  return whole > 99 && word === "year" ? "in more than 99 years" : `in ${whole} ${word}${whole === 1 ? "" : "s"}`;
}

/** What becomes of a memory that nobody uses from a time on, in words, beside its state: "active · fades in 3 weeks". */
export function fate(memory, time) {
  const state = stateOf(relevanceThen(memory, time) ?? 0);
  const next = { active: ["fades", BOUNDS.active], fading: ["forgotten", BOUNDS.fading], forgotten: ["dissolves", BOUNDS.forgotten] }[state];
  return next ? `${next[0]} ${ahead(fallsTo(memory, next[1]) - time)}` : "dissolved";
}

/** How many memories are in each state at each of many times, in order; some additions for each memory, not for each time. */
export function countsOver(memories, times) {
  const counts = STATES.map(() => new Int32Array(times.length + 1));
  const first = times[0], step = (times[times.length - 1] - first) / (times.length - 1);
  const place = (time) => Math.min(times.length, Math.max(0, Math.ceil((time - first) / step)));
  function add(memory, from, until) {
    let begin = from;
    STATES.forEach((state, index) => {
      const end = index < 3 ? Math.min(until, Math.max(begin, fallsTo(memory, BOUNDS[state]))) : until;
      counts[index][place(begin)] += 1;
      counts[index][place(end)] -= 1;
      begin = end;
    });
  }
  for (const memory of memories) {
    const young = { relevance: 1, connections: 0, contradicts: 0, halflife: memory.halflife, accessed: memory.created };
    if (memory.created < memory.accessed) add(young, memory.created, memory.accessed);
    add(memory, memory.accessed, Infinity);
  }
  return counts.map((changes) => {
    let sum = 0;
    return Array.from(changes.subarray(0, times.length), (change) => (sum += change));
  });
}
