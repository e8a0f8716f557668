"""An object store on the loopback that several processes write to, with conditional creation.

Like S3, an object is there whole or not at all: a writer that dies in the middle of its request
leaves nothing. `url_of` gives a URL that fsspec opens in any process that imported this module.
"""

from __future__ import annotations

import http.client
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import fsspec


class Store:
    """The objects by path, and the server that hands them out."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        lock, objects = threading.Lock(), self.objects

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                size = int(self.headers["Content-Length"])
                data = self.rfile.read(size)
                if len(data) < size:
                    return
                with lock:
                    taken = self.path in objects
                    if not taken:
                        objects[self.path] = data
                self._say(412 if taken else 200, b"")

            def do_GET(self) -> None:
                data = objects.get(self.path)
                self._say(404 if data is None else 200, data or b"")

            def _say(self, status: int, data: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

            def handle(self) -> None:
                with suppress(ConnectionError):  # the writer was killed
                    super().handle()

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def url(self, place: str) -> str:
        return f"shelf://{self.port}/{place}"


class Shelf(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """What a driver of such a store offers: creating where nothing is, and reading."""

    protocol = "shelf"
    cachable = False

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.removeprefix("shelf://").rstrip("/")

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Stores have no directories."""

    def cat_file(self, path: str, *_: Any, **__: Any) -> bytes:
        status, data = self._ask("GET", path, None)
        if status == 404:
            raise FileNotFoundError(path)
        return data

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        assert mode == "create"
        if self._ask("PUT", path, value)[0] == 412:
            raise FileExistsError(path)

    def _ask(self, method: str, path: str, data: bytes | None) -> tuple[int, bytes]:
        port, _, key = self._strip_protocol(path).partition("/")
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=30)
        try:
            connection.request(method, f"/{key}", data)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


fsspec.register_implementation("shelf", Shelf, clobber=True)
