"""The client's side of SCRAM (RFC 5802), as Kafka's clients have it. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from typing import Final

DIGESTS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The mechanisms, with their hashes."""

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 1_000_000
"""More would keep the client busy for longer than a second."""

TOKEN_EXTENSION: Final = ",tokenauth=true"
HEADER: Final = "n,,"
_SERVER_FIRST: Final = re.compile(r"r=([!-+\--~]+),s=([A-Za-z0-9+/=]+),i=([0-9]{1,10})(?:,.*)?")
_SERVER_FINAL: Final = re.compile(r"(v|e)=([^,]*)(?:,.*)?")


class ScramFailed(Exception):
    """The server does not know what it should, or says that the client does not."""


class ScramClient:
    """One exchange: `first`, `final`, `check`, in this order."""

    def __init__(
        self, mechanism: str, user: str, password: str, nonce: str, *, is_token: bool = False
    ) -> None:
        """`is_token`: user and password are the id and the HMAC of a delegation token (KIP-48)."""
        self._digest = DIGESTS[mechanism]
        self._password = password
        self._nonce = nonce
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._first = f"n={name},r={nonce}{TOKEN_EXTENSION if is_token else ''}"
        self._signature = b""

    def first(self) -> bytes:
        """The first message."""
        return (HEADER + self._first).encode()

    def final(self, challenge: bytes) -> bytes:
        """The final message, after the server's first. ScramFailed."""
        text = challenge.decode(errors="replace")
        found = _SERVER_FIRST.fullmatch(text)
        if found is None or not found[1].startswith(self._nonce):
            raise ScramFailed("its challenge is not one of SCRAM")
        iterations = int(found[3])
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise ScramFailed(f"it asks for {iterations} iterations")
        salted = hashlib.pbkdf2_hmac(
            self._digest, self._password.encode(), _decoded(found[2]), iterations
        )
        channel = base64.b64encode(HEADER.encode()).decode()
        without_proof = f"c={channel},r={found[1]}"
        signed = f"{self._first},{text},{without_proof}".encode()
        client_key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._digest, client_key).digest(), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def check(self, response: bytes) -> None:
        """Whether the server knows the password as well. ScramFailed."""
        found = _SERVER_FINAL.fullmatch(response.decode(errors="replace"))
        if found is None:
            raise ScramFailed("its last message is not one of SCRAM")
        if found[1] == "e":
            raise ScramFailed(found[2])
        if not hmac.compare_digest(_decoded(found[2]), self._signature):
            raise ScramFailed("it does not know the password itself")

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._digest)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as failure:
        raise ScramFailed(f"its message is not one of SCRAM: {failure}") from failure
