"""A bunker (NIP-46) in this process, and its lies. It is written from the page of the NIP, on the sockets of websockets."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

from websockets.asyncio.client import connect

from sense_memory import LocalSigner
from sense_memory.nostr.event import RawEvent, Unsigned, verify


class Bunker:
    """Signs for whoever gave the secret once. A subclass lies by overriding `answer` or one of the methods.

    Attributes:
        asked: the methods that were asked for, in order.
        clients: the public keys that are admitted.
    """

    def __init__(self, relay, clock, *, user=None):
        self.relay, self.clock = relay, clock
        self.key, self.user = LocalSigner.generate(), user or LocalSigner.generate()
        self.secret, self.asked, self.clients = "s3cret", [], set()
        self.is_silent = False
        self._tasks = set()

    @property
    def url(self):
        return f"bunker://{self.key.public_key}?relay={self.relay}&secret={self.secret}"

    @asynccontextmanager
    async def running(self):
        async with connect(self.relay) as socket:
            wanted = {"kinds": [24133], "#p": [self.key.public_key], "limit": 0}
            await socket.send(json.dumps(["REQ", "b", wanted]))
            while json.loads(await socket.recv())[0] != "EOSE":
                pass
            serving = asyncio.create_task(self._serve(socket))
            try:
                yield self
            finally:
                for task in [serving, *self._tasks]:
                    task.cancel()
                await asyncio.gather(serving, *self._tasks, return_exceptions=True)

    async def _serve(self, socket):
        async for message in socket:
            frame = json.loads(message)
            if frame[0] == "EVENT":
                task = asyncio.create_task(self._reply(socket, verify(RawEvent.parse(frame[2]))))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _reply(self, socket, event):
        request = json.loads(await self.key.decrypt(event.content, event.pubkey))
        method, params = request["method"], request["params"]
        self.asked.append(method)
        if self.is_silent:
            return
        async for said in self.answers(event.pubkey, method, params):
            await self.say(socket, event.pubkey, {"id": request["id"], **said})

    async def say(self, socket, client, said, key=None):
        """Send one answer."""
        key = key or self.key
        content = await key.encrypt(json.dumps(said).encode(), client)
        answer = await key.sign(Unsigned(int(self.clock()), 24133, (("p", client),), content))
        await socket.send(json.dumps(["EVENT", answer.as_json()]))

    async def answers(self, client, method, params):
        """Every answer to a request: honest bunkers give one."""
        if method == "connect":
            if params[0] != self.key.public_key or params[1] != self.secret:
                yield {"result": "", "error": "wrong secret"}
                return
            self.clients.add(client)
        if client not in self.clients:
            yield {"result": "", "error": "who are you?"}
            return
        try:
            yield {"result": await getattr(self, method)(*params)}
        except Exception as error:
            yield {"result": "", "error": f"{type(error).__name__} in their words: quokka"}

    async def connect(self, *_):
        return "ack"

    async def ping(self):
        return "pong"

    async def get_public_key(self):
        return self.user.public_key

    async def switch_relays(self):
        return None

    async def nip44_encrypt(self, reader, text):
        return await self.user.encrypt(text.encode(), reader)

    async def nip44_decrypt(self, author, payload):
        return (await self.user.decrypt(payload, author)).decode()

    async def sign_event(self, text):
        return json.dumps((await self.signed(json.loads(text))).as_json())

    async def signed(self, given, key=None):
        tags = tuple(map(tuple, given["tags"]))
        unsigned = Unsigned(given["created_at"], given["kind"], tags, given["content"])
        return await (key or self.user).sign(unsigned)
