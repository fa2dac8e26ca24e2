"""The MCP server: an agent's tools, resources and a prompt, over stdio or HTTP on this machine.

`program` runs the server, `server` has what it offers, `stdio` and `http` are the transports. Only `sdk` knows the
classes of the SDK, on both of its lines; `sdk` and the transports import the SDK, which is the extra `mcp`.
"""
