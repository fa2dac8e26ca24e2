"""The MCP server: an agent's tools, resources and a prompt, over stdio or HTTP on this machine.

`program` runs it, `server` is what it offers on either line of the SDK, `stdio` and `http` are the transports. Only `sdk`
knows the SDK's classes; it and the transports import the SDK, which is the extra `mcp`.
"""
