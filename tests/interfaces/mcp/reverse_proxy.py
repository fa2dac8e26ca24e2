"""A reverse proxy as a program of its own, where Caddy is not installed. Arguments: its port, and that of the server.

It passes each request on with the `Host` that the client named, as Caddy does, and answers when the server's answer is whole.
"""

import http.client
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


PORT, SERVER = map(int, sys.argv[1:])


class Proxy(BaseHTTPRequestHandler):
    def handle_request(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        server = http.client.HTTPConnection("127.0.0.1", SERVER, timeout=30)
        headers = dict(self.headers) | {
            "X-Forwarded-For": self.client_address[0],
            "X-Forwarded-Proto": "http",
        }
        server.request(self.command, self.path, body, headers)
        answer = server.getresponse()
        content = answer.read()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in {"transfer-encoding", "content-length", "connection"}:
                self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = handle_request  # noqa: N815 - names of the standard library

    def log_message(self, *_):
        pass


proxy = ThreadingHTTPServer(("127.0.0.1", PORT), Proxy)
proxy.serve_forever()
