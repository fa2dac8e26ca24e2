// The OpenCode plugin of sense-memory: it shows the memory at the start of a session, and keeps what is said, at the end of a
// turn and before a compaction. It runs `sense-memory hook`, which works offline. No failure of it stops OpenCode.
import { spawn } from "node:child_process";

const PROGRAM = ["sense-memory"];
const OPTIONS = [];
const ENVIRONMENT = {};
const SECONDS = 15;

/** What a hook prints; empty if it fails. */
function run(name, event) {
  return new Promise((resolve) => {
    try {
      const [command, ...words] = [...PROGRAM, "hook", name, ...OPTIONS];
      const env = { ...process.env, ...ENVIRONMENT };
      const child = spawn(command, words, { env, stdio: ["pipe", "pipe", "ignore"] });
      const patience = setTimeout(() => child.kill(), SECONDS * 1000);
      patience.unref?.();
      let told = "";
      child.on("error", () => resolve(""));
      child.stdin.on("error", () => {});
      child.stdout.on("data", (data) => (told += data));
      child.on("close", () => {
        clearTimeout(patience);
        resolve(told);
      });
      child.stdin.end(JSON.stringify(event));
    } catch {
      resolve("");
    }
  });
}

/** The records of a transcript; texts that OpenCode itself put in are left out. */
function records(messages) {
  return messages.flatMap(({ info, parts }) => {
    const said = parts.filter((part) => part.type === "text" && !part.synthetic && !part.ignored).map((part) => part.text);
    const message = { role: info.role, content: said.join("\n") };
    return said.length ? [{ type: info.role, timestamp: info.time.created, message }] : [];
  });
}

export const SenseMemory = async ({ client, directory }) => {
  const contexts = new Map();
  let last = Promise.resolve(); // one hook after the other

  async function keep(name, session) {
    try {
      const about = await client.session.get({ path: { id: session } });
      if (about.data?.parentID) return; // a side task
      const { data } = await client.session.messages({ path: { id: session } });
      await run(name, { session_id: session, cwd: directory, records: records(data ?? []) });
    } catch {
      // the next turn repeats it
    }
  }

  function queued(name, session) {
    last = last.then(() => keep(name, session));
    return last;
  }

  async function context(session) {
    const told = await run("session-start", { session_id: session, cwd: directory });
    try {
      return JSON.parse(told).hookSpecificOutput.additionalContext;
    } catch {
      return "";
    }
  }

  return {
    event: async ({ event }) => {
      if (event.type === "session.idle") await queued("turn-end", event.properties.sessionID);
      if (event.type === "session.deleted") contexts.delete(event.properties.info?.id);
    },
    "experimental.session.compacting": async ({ sessionID }) => {
      await queued("pre-compact", sessionID);
      contexts.delete(sessionID);
    },
    "experimental.chat.system.transform": async ({ sessionID }, output) => {
      if (!sessionID) return;
      if (!contexts.has(sessionID)) contexts.set(sessionID, context(sessionID));
      const told = await contexts.get(sessionID);
      if (told) output.system.push(told);
    },
  };
};
