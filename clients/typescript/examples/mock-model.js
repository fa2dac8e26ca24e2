// A model that needs no account: it keeps what it is told, looks up what it is asked, and answers with what it finds.

import { MockLanguageModelV3 } from "ai/test";

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

/** @param {string} toolName @param {object} input */
const call = (toolName, input) => ({
  content: [{ type: /** @type {const} */ ("tool-call"), toolCallId: "1", toolName, input: JSON.stringify(input) }],
  finishReason: { unified: /** @type {const} */ ("tool-calls"), raw: undefined },
  usage,
  warnings: [],
});

/** @param {string} text */
const say = (text) => ({
  content: [{ type: /** @type {const} */ ("text"), text }],
  finishReason: { unified: /** @type {const} */ ("stop"), raw: undefined },
  usage,
  warnings: [],
});

export const model = new MockLanguageModelV3({
  doGenerate: async ({ prompt }) => {
    const last = prompt[prompt.length - 1];
    const [part] = /** @type {any[]} */ (last.content);
    if (last.role === "user" && part.text.endsWith("?")) return call("search", { query: part.text });
    if (last.role === "user") return call("remember", { path: "people/facts/lisa", value: part.text });
    if (part.toolName === "remember") return say(`I will remember it (${part.output.value.remembered}).`);
    return say(part.output.value.map((/** @type {{ value: string }} */ hit) => hit.value).join("\n") || "I do not know.");
  },
});
