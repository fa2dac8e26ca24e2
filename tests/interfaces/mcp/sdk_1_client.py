"""A program for the 1.x line of the SDK: its own client starts `sense-memory mcp` on stdio, writes, and kills it.

Arguments: the command. It prints what it saw as JSON. The memory `people/facts/last` is written when the server dies.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main() -> dict:
    seen = {}
    command, *arguments = sys.argv[1:]
    started = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    async with stdio_client(started) as streams, ClientSession(*streams) as session:
        seen["server"] = (await session.initialize()).serverInfo.name
        seen["tools"] = [tool.name for tool in (await session.list_tools()).tools]
        written = await session.call_tool("remember", {"path": "people/facts/lisa", "value": "Lisa paints"})
        seen["written"] = written.structuredContent
        refused = await session.call_tool("remember", {"path": "people/facts/lisa"})
        seen["refused"] = [refused.isError, refused.content[0].text]
        found = await asyncio.gather(*(session.call_tool("search", {"query": "paints"}) for _ in range(50)))
        seen["found"] = len([one for one in found if one.structuredContent["hits"]])
        resource = await session.read_resource("sense-memory://palace")
        seen["palace"] = json.loads(resource.contents[0].text)["domains"]
        prompt = await session.get_prompt("memory", {"question": "Who paints?"})
        seen["prompt"] = "Lisa paints" in prompt.messages[0].content.text
        try:
            await session.call_tool("forget", {"path": "people/facts/lisa"})
        except Exception as error:
            seen["unknown"] = str(error)
        last = await session.call_tool(
            "remember", {"path": "people/facts/last", "value": "written before the end"}
        )
        seen["last"] = last.structuredContent
        calls = (
            session.call_tool("remember", {"path": f"a/b/{number}", "value": "v"}) for number in range(20)
        )
        dying = asyncio.gather(*calls)
        await asyncio.wait({dying}, timeout=0.01)  # in the middle of these it dies
        for process in children():
            os.kill(process, signal.SIGKILL)
        os.write(1, (json.dumps(seen) + "\n").encode())
        os._exit(0)


def children() -> list[int]:
    """The processes that this one started."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return [int(number) for number in listed.split()]


asyncio.run(main())
