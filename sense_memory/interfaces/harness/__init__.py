"""Agent harnesses: their configuration files, and the programs that they run at events of a session.

`specs` is the table of harnesses, `installation` writes and takes back what it says, `config_text` edits one file's
text, `hooks` runs at events, `transcript` reads a conversation that a harness wrote. The commands are in
`sense_memory.interfaces.cli.harness`.
"""
