// The memory of an agent over HTTP: a client of openapi-fetch that sends the token, and throws what the server refuses.

import createClient from "openapi-fetch";

/** A request that the server refused; `type` is the name of the error in its answer. */
export class MemoryError extends Error {
  /**
   * @param {number} status
   * @param {string} type
   * @param {string} message
   */
  constructor(status, type, message) {
    super(message);
    this.name = "MemoryError";
    this.status = status;
    this.type = type;
  }
}

/**
 * A client of `sense-memory api`.
 *
 * @param {{ url?: string, token: string }} options
 * @returns {import("openapi-fetch").Client<import("./schema.js").paths>}
 */
export function connect({ url = "http://127.0.0.1:8766", token }) {
  const client = createClient({ baseUrl: url, headers: { authorization: `Bearer ${token}` } });
  client.use({
    async onResponse({ response }) {
      if (response.ok) return;
      const told = await response.json().catch(() => ({}));
      throw new MemoryError(response.status, told.error?.type ?? "Error", told.error?.message ?? response.statusText);
    },
  });
  return client;
}
