"""An OAuth server that gives everyone a token."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs

from support.ports import HOST

LIFETIME_S = 3600.0


class TokenRequest(NamedTuple):
    """A request."""

    credentials: str
    form: dict[str, list[str]]


class TokenEndpoint:
    """It runs within a `with` block."""

    def __init__(self) -> None:
        self.asked: list[TokenRequest] = []
        self.answer: tuple[int, bytes] | None = None
        """What is answered instead of a token."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                _, _, given = self.headers["Authorization"].partition(" ")
                outer.asked.append(TokenRequest(base64.b64decode(given).decode(), parse_qs(body)))
                token = unsigned_token("alice", time.time() + LIFETIME_S)
                code, text = outer.answer or (200, json.dumps({"access_token": token}).encode())
                self.send_response(code)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: Any) -> None:
                """Nothing is printed."""

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self.url = f"http://{HOST}:{self._server.server_address[1]}/token"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def unsigned_token(subject: str, expires_s: float) -> str:
    """A JSON Web Token that nobody has signed."""
    claims = {"sub": subject, "iat": time.time(), "exp": expires_s}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return ".".join([*(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts), ""])
