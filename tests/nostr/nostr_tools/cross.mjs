// Answers requests with nostr-tools: a JSON array of {op, …} on stdin, the array of results on stdout.
// A request that throws is answered with {error: true}; the other answers are not affected.
import { readFileSync } from 'node:fs'
import { decode, npubEncode, nsecEncode } from 'nostr-tools/nip19'
import { decrypt, encrypt, getConversationKey } from 'nostr-tools/nip44'
import { finalizeEvent, verifyEvent } from 'nostr-tools/pure'

const bytes = hex => Uint8Array.from(Buffer.from(hex, 'hex'))
const hex = array => Buffer.from(array).toString('hex')

const ops = {
  conversation: ({ secret, reader }) => hex(getConversationKey(bytes(secret), reader)),
  encrypt: ({ text, key }) => encrypt(text, bytes(key)),
  decrypt: ({ payload, key }) => decrypt(payload, bytes(key)),
  sign: ({ template, secret }) => {
    const { id, pubkey, created_at, kind, tags, content, sig } = finalizeEvent(template, bytes(secret))
    return { id, pubkey, created_at, kind, tags, content, sig }
  },
  verify: ({ event }) => verifyEvent(event),
  nsec: ({ secret }) => nsecEncode(bytes(secret)),
  npub: ({ pubkey }) => npubEncode(pubkey),
  decode: ({ text }) => {
    const { type, data } = decode(text)
    return { type, hex: typeof data === 'string' ? data : hex(data) }
  },
}

const answer = request => {
  try {
    return ops[request.op](request)
  } catch {
    return { error: true }
  }
}

process.stdout.write(JSON.stringify(JSON.parse(readFileSync(0, 'utf8')).map(answer)))
