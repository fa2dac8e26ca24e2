"""The HTTP API: calls of a store as JSON under `/v1/`, for programs of this machine that have a token.

`calls.py` has the calls, each an async function whose signature is the request and whose annotation is the answer; `routes.py`
makes routes of them, `openapi.py` the OpenAPI document, and `server.py` decides who gets an answer.
"""
