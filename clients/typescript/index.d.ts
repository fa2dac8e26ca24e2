import type { Client } from "openapi-fetch";
import type { components, paths } from "./schema.js";

/** The things in answers, such as `Schemas["PalaceMemory"]`. */
export type Schemas = components["schemas"];

/** A request that the server refused; `type` is the name of the error in its answer. */
export class MemoryError extends Error {
  readonly status: number;
  readonly type: string;
}

/** A client of `sense-memory api`. Its calls throw a MemoryError where the server refuses. */
export function connect(options: { url?: string; token: string }): Client<paths>;
