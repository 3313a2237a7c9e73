"""The page of an album, served for a test by a real server in a thread."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time

from projbank.album import Album


class Served:
    """A running server: its port, and requests to it."""

    def __init__(self, port):
        self.port = port
        self.address = f"http://127.0.0.1:{port}/"

    def ask(self, path, method="GET", body=None, headers=None):
        """Status, headers and body of an answer; JSON is decoded."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        data, kind = answer.read(), answer.getheader("content-type", "")
        connection.close()
        return (
            answer.status,
            dict(answer.getheaders()),
            json.loads(data) if kind.startswith("application/json") else data,
        )

    def wait(self):
        """Wait until no update is under way."""
        while self.ask("/api/status")[2]["work"]["running"]:
            time.sleep(0.02)


@contextlib.contextmanager
def serving(root, *, token=None, update_first=False):
    """Serve an album at a free port of this machine."""
    import uvicorn

    from projbank.album.server import Site, build_app

    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    site = Site(Album(root, n_jobs=1), update_first=update_first)
    hosts = None if token else frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})
    server = uvicorn.Server(uvicorn.Config(build_app(site, token=token, hosts=hosts), log_level="warning"))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield Served(port)
    finally:
        server.should_exit = True
        thread.join()
        site.stop()
        listener.close()
