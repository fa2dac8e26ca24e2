"""Starts the `sense-memory` of this machine as an MCP server; an MCPB bundle begins here."""

import shutil
import subprocess
import sys

program = shutil.which("sense-memory")
if program is None:
    sys.exit("sense-memory is not on the PATH: install it first, with its extra `mcp`")
sys.exit(subprocess.call([program, *sys.argv[1:]]))
