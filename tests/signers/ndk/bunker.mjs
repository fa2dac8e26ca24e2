// NDK's bunker (NIP-46), which nobody here wrote: `node bunker.mjs RELAY SECRET-KEY TOKEN`; says "ready" when it listens.
import WebSocket from "ws";

globalThis.WebSocket ??= WebSocket;
const { default: NDK, NDKNip46Backend, NDKPrivateKeySigner } = await import("@nostr-dev-kit/ndk");

const [relay, key, token] = process.argv.slice(2);
const admitted = new Set();

class Bunker extends NDKNip46Backend {
  async applyToken(client, given) {
    if (given !== token) throw new Error("wrong token");
    admitted.add(client);
  }
}

const ndk = new NDK({ explicitRelayUrls: [relay], enableOutboxModel: false, autoConnectUserRelays: false });
const bunker = new Bunker(ndk, new NDKPrivateKeySigner(key), async ({ pubkey }) => admitted.has(pubkey), [relay]);
await ndk.connect(5000);
await bunker.start();
console.log("ready");
