"""A small real HTTP server on a free port of this machine, with every fault of the contract.

Subclasses keep the book and answer; this one listens, counts, and bends.
"""

import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

#: What an answer without end comes to here, so that a reader without a bound fails and ends.
_FLOOD_BYTES = 64 * 1024 * 1024


@dataclass
class Asked:
    """One request as it came."""

    path: str
    query: dict[str, str]
    headers: dict[str, str]


@dataclass
class Told:
    """One answer: `body` is sent as JSON unless it is bytes already."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)

    def raw(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


class RestServer:
    """Subclass it and write `answer`. `fault` is one of the contract's, None for none."""

    def __init__(self) -> None:
        self.fault: str | None = None
        self.asked: list[Asked] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server._serve(self)

            def log_message(self, *args: Any) -> None:
                return

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def start(self) -> "RestServer":
        self._thread.start()
        return self

    def stop(self) -> None:
        self.fault = None
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def answer(self, asked: Asked) -> Told:
        raise NotImplementedError

    def refusal(self, fault: str) -> Told:
        """The answer to a request that the provider turns away; statuses are the contract's."""
        status = {"refused": 401, "forbidden": 403, "throttled": 429, "outage": 503}[fault]
        return Told(status, {"message": "a fault of the test"})

    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        headers = {name.lower(): value for name, value in handler.headers.items()}
        asked = Asked(parts.path, query, headers)
        self.asked.append(asked)
        try:
            self._send(handler, asked)
        except ConnectionError:
            handler.close_connection = True

    def _send(self, handler: BaseHTTPRequestHandler, asked: Asked) -> None:
        fault = self.fault
        ends_at = time.monotonic() + 30
        while self.fault == "hang" and time.monotonic() < ends_at:
            time.sleep(0.02)
        if fault == "flood":
            self._flood(handler)
            return
        if fault == "garbage":
            told = Told(200, b"<html>a proxy's page</html>")
        elif fault in {None, "hang", "cut"}:
            told = self.answer(asked)
        else:
            told = self.refusal(fault)
        raw = told.raw()
        if "Date" in told.headers:
            # The usual one would stand before it.
            handler.send_response_only(told.status)
        else:
            handler.send_response(told.status)
        for name, value in told.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(raw)))
        handler.end_headers()
        handler.wfile.write(raw[: len(raw) // 2] if fault == "cut" else raw)
        if fault == "cut":
            handler.close_connection = True

    @staticmethod
    def _flood(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Connection", "close")
        handler.end_headers()
        for _ in range(_FLOOD_BYTES // 65536):
            handler.wfile.write(b" " * 65536)
        handler.close_connection = True
