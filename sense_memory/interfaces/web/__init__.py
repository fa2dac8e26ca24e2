"""The palace in the browser: a page on this machine, which shows a store and, if that is wanted, edits it.

`server` is the door: who may ask, and how an answer leaves. `api` turns calls of the store into JSON. `static/` holds the
page, which needs no build step and asks no other server. Only the command `web` imports this package; it needs the extra
`web`.
"""
