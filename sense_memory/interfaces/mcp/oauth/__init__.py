"""Access to the MCP server from elsewhere, through a reverse proxy: OAuth 2.1 as the MCP specification asks for it.

`access_file.py` keeps who may do what, `sealed_text.py` the requests that nobody has approved yet, `provider.py` answers the
SDK's handlers, `consent.py` is the page that asks the user, and `application.py` decides who gets an answer.
"""
