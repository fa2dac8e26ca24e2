// The server of this page, and no other.

const PAGE = "sense-memory-page";

export const TAB = crypto.randomUUID(); // the changes that this tab makes come back to it with this name

export const session = { npub: "", agent: "", edit: null, now: 0, counts: {}, relays: 0, version: "" };

export class Refused extends Error {
  constructor(status, { error, now }) {
    super(error.message);
    this.status = status;
    this.type = error.type;
    this.now = now; // what is there now, where an edit met another text
  }
}

async function answer(response) {
  const isJson = (response.headers.get("content-type") ?? "").startsWith("application/json");
  const body = isJson ? await response.json() : { error: { type: "Refused", message: (await response.text()).trim() } };
  if (response.ok) return body;
  throw new Refused(response.status, body);
}

/** The header that proves which page asks: browsers keep this token for this port alone, unlike the cookie. */
const shown = () => ({ "x-sense-memory-page": localStorage.getItem(PAGE) ?? "" });

/** Ask for something, with the parameters of the query that are not undefined. */
export async function get(name, parameters = {}, options = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null);
  const query = given.length ? `?${new URLSearchParams(given)}` : "";
  return answer(await fetch(`/api/${name}${query}`, { ...options, headers: { ...shown(), ...options.headers } }));
}

/** Change something; only where the server was started with `--edit`. */
async function post(name, wanted) {
  const headers = { ...shown(), "content-type": "application/json", "x-sense-memory-edit": session.edit, "x-sense-memory-tab": TAB };
  working += 1;
  try {
    return await answer(await fetch(`/api/${name}`, { method: "POST", headers, body: JSON.stringify(wanted) }));
  } finally {
    working -= 1;
    forgetPalace();
  }
}

let working = 0;

/** Whether something is being changed, and is not answered yet. */
export const isWorking = () => working > 0;

/** Carry out a decision of the review. */
export const act = (action, ...names) => post("act", { action, names });

/** Make an edit; returns what was done. */
export const edit = async (wanted) => (await post("edit", wanted)).edit;

/** Bring relays and this machine in step. */
export const synced = () => post("sync", {});

/** The stream of changes, as `fetch` answers. */
export const changes = (signal) => fetch("/api/events", { signal, cache: "no-store", headers: shown() });

/** Exchange the token in the address for the cookie and the page token, or present those; removes the token from the address. */
export async function open() {
  const token = /^#token=([\w-]+)$/.exec(location.hash)?.[1];
  if (token) history.replaceState(null, "", location.pathname + "#/");
  const headers = token ? { "x-sense-memory-token": token } : {};
  const { page, ...told } = await get("session", {}, { headers });
  if (page) localStorage.setItem(PAGE, page);
  Object.assign(session, told);
}

// ── The palace, read in pieces ──────────────────────────────────────────────────────────

let kept = null, age = 0;

/** Read the palace anew from now on; what is being read at the moment may be older, and is not kept. */
export function forgetPalace() {
  kept = null;
  age += 1;
}

/** Every row of the palace, now or at a time; `arrived` gets the rows so far, whether that is all, and now, after each piece. */
export async function palace(at, arrived) {
  if (at === undefined && kept && Date.now() - kept.asked < 30_000) {
    arrived?.(kept.rows, true, kept.now);
    return kept;
  }
  const begun = age, first = await get("palace", { at });
  const rows = first.rows;
  arrived?.(rows, first.next === null, first.now);
  for (let next = first.next; next !== null; ) {
    const piece = await get("palace", { picture: first.picture, start: next });
    rows.push(...piece.rows);
    next = piece.next;
    arrived?.(rows, next === null, first.now);
  }
  const whole = { rows, now: first.now, at: first.at, is_whole: first.is_whole, asked: Date.now() };
  if (at === undefined && begun === age) kept = whole;
  return whole;
}
