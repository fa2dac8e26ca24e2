"""A TCP proxy that counts bytes. It runs in threads that do nothing but wait for the network."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from urllib.parse import urlsplit


class CountingProxy:
    """A proxy in front of a relay of this machine, until `close`.

    Args:
        upstream: `ws://127.0.0.1:PORT`.

    Attributes:
        bytes: the bytes passed so far, both ways, handshakes included.
    """

    def __init__(self, upstream: str) -> None:
        place = urlsplit(upstream)
        self._upstream = (place.hostname or "", place.port or 0)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"ws://127.0.0.1:{self._server.getsockname()[1]}"
        self.bytes = 0
        self._counting = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no further connections."""
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:  # closed
                return
            relay = socket.create_connection(self._upstream)
            for source, target in ((client, relay), (relay, client)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        """One direction, until either side leaves."""
        with suppress(OSError):
            while data := source.recv(262_144):
                with self._counting:
                    self.bytes += len(data)
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):  # the other direction was faster
                end.shutdown(socket.SHUT_RDWR)  # unlike `close`, wakes threads that wait
        source.close()
