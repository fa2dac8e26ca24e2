"""An agent on the published package sense-memory 0.3.1. Runs in an environment of its own, never in ours.

Reads JSON objects from stdin, one a line ({"nsec", "relay", "remember", "journal", "recall", "forget"}), does each in
that order, in a process of its own that has imported everything, and prints what it recalled as JSON. The package only dials wss:// and only public hosts;
both checks are patched out so that it can talk to a relay on this machine.
"""

import asyncio
import json
import os
import sys

import nostrkey.relay
import sense_memory.store


nostrkey.relay.validate_relay_url = lambda url: None
sense_memory.store._validate_relay_url = lambda url: None


async def main(task):
    identity = nostrkey.Identity.from_nsec(task["nsec"])
    store = sense_memory.store.MemoryStore(identity, task["relay"])
    for key, value in task.get("remember", {}).items():
        await store.remember(key, value)
    for text in task.get("journal", []):
        await store.journal(text)
    for key in task.get("forget", []):
        await store.forget(key)
    recalled = {}
    for key in task.get("recall", []):
        memory = await store.recall(key)
        recalled[key] = None if memory is None else memory.value
    return {
        "recall": recalled,
        "recall_all": {memory.key: memory.value for memory in await store.recall_all()},
        "recent": [entry.content for entry in await store.recent()],
    }


for line in sys.stdin:
    if not os.fork():
        print(json.dumps(asyncio.run(main(json.loads(line)))), flush=True)
        os._exit(0)
    _, status = os.wait()
    if status:
        print("null", flush=True)
