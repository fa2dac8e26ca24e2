// A relay of @nostr-relay/core behind one HTTP server, on a free port of this machine, which it prints.
// Its one argument is JSON: {"database": path, "page": events, "message": bytes, "auth": true or false}.

import { createServer } from "node:http";

import common from "@nostr-relay/core";
import sqlite from "@nostr-relay/event-repository-sqlite";
import checks from "@nostr-relay/validator";
import { WebSocketServer } from "ws";

const options = { database: ":memory:", page: 500, message: 1 << 20, auth: false, ...JSON.parse(process.argv[2] ?? "{}") };
const host = "127.0.0.1";

const events = new sqlite.EventRepositorySqlite(options.database, { defaultLimit: options.page });
await events.init();
const relay = new common.NostrRelay(events, {
  hostname: options.auth ? host : undefined,
  logLevel: 3, // errors
  filterResultCacheTtl: 0, // what was published a moment ago is found
  eventHandlingResultCacheTtl: 0,
});
const validator = new checks.Validator({ maxContentLength: 200_000 });

const information = {
  name: "a relay of @nostr-relay/core",
  supported_nips: options.auth ? [1, 9, 11, 42] : [1, 9, 11],
  limitation: { auth_required: options.auth, default_limit: options.page, max_limit: options.page },
};
const server = createServer((request, response) => {
  response.setHeader("content-type", "application/nostr+json");
  response.end(JSON.stringify(information));
});

const refusal = (message) =>
  message[0] === "EVENT"
    ? ["OK", message[1].id, false, "auth-required: who are you?"]
    : ["CLOSED", message[1], "auth-required: who are you?"];

new WebSocketServer({ server, maxPayload: options.message }).on("connection", (socket) => {
  relay.handleConnection(socket, host);
  socket.on("close", () => relay.handleDisconnect(socket));
  socket.on("error", () => socket.close()); // one that was too large: the library has sent 1009 already
  socket.on("message", async (data) => {
    try {
      const message = await validator.validateIncomingMessage(data);
      const known = !options.auth || message[0] === "AUTH" || relay.isAuthorized(socket);
      if (known) await relay.handleMessage(socket, message);
      else if (message[0] !== "CLOSE") socket.send(JSON.stringify(refusal(message)));
    } catch (problem) {
      socket.send(JSON.stringify(["NOTICE", problem.message]));
    }
  });
});

server.listen(0, host, () => console.log(server.address().port));
