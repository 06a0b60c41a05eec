"""The client's side of SASL DIGEST-MD5 (RFC 2831), as ZooKeeper's servers speak it. Pure.

The server sends a challenge, the client answers with a proof that it knows the password, and the
server's last message proves that it knows the password too. Only authentication: no integrity, no
encryption, which ZooKeeper does not use.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from typing import Final, NamedTuple

from kavka.seams import Random

SERVICE: Final = "zookeeper"
SERVER: Final = "zk-sasl-md5"
"""The name and realm of every ZooKeeper server."""

URI: Final = f"{SERVICE}/{SERVER}"
_COUNT: Final = "00000001"
_QOP: Final = "auth"
_CNONCE_BITS: Final = 128
_FIELD: Final = re.compile(r'\s*([a-zA-Z-]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^,\s]*)\s*(?:,|$)')


class SaslError(Exception):
    """The exchange failed; the message says why."""


class Identity(NamedTuple):
    """A user and the password, which only the user and the server know."""

    username: str
    realm: str
    password: str


def proof(who: Identity, nonce: str, cnonce: str, *, purpose: str, uri: str = URI) -> str:
    """A proof of knowing the password: the client's has the purpose AUTHENTICATE, the server's has
    none. `nonce`, `cnonce`: random values of the server and the client."""
    secret = _md5(b":".join(map(_encode, who)))
    session = _md5(b":".join((secret, nonce.encode(), cnonce.encode()))).hex()
    of_uri = _md5(f"{purpose}:{uri}".encode()).hex()
    return _md5(":".join((session, nonce, _COUNT, cnonce, _QOP, of_uri)).encode()).hex()


class DigestMd5:
    """One exchange: `respond` to the challenge, then `check` the server's last message."""

    def __init__(self, username: str, password: str, random: Random) -> None:
        self._username = username
        self._password = password
        bits = random.getrandbits(_CNONCE_BITS)
        self._cnonce = base64.b64encode(bits.to_bytes(_CNONCE_BITS // 8)).decode()
        self._proof_of_server = ""

    def respond(self, challenge: bytes) -> bytes:
        """The response to a challenge. SaslError if it is not one."""
        fields = parse(challenge)
        nonce, realm = fields.get("nonce"), fields.get("realm", SERVER)
        if not nonce:
            raise SaslError("the challenge has no nonce")
        if fields.get("algorithm") != "md5-sess":
            raise SaslError(f"the algorithm is {fields.get('algorithm')}, not md5-sess")
        if _QOP not in fields.get("qop", _QOP).split(","):
            raise SaslError(f"the server demands {fields['qop']}, not {_QOP}")
        who = Identity(self._username, realm, self._password)
        self._proof_of_server = proof(who, nonce, self._cnonce, purpose="")
        values = {
            "charset": "utf-8",
            "username": _quoted(self._username),
            "realm": _quoted(realm),
            "nonce": _quoted(nonce),
            "nc": _COUNT,
            "cnonce": _quoted(self._cnonce),
            "digest-uri": _quoted(URI),
            "response": proof(who, nonce, self._cnonce, purpose="AUTHENTICATE"),
            "qop": _QOP,
        }
        return ",".join(f"{name}={value}" for name, value in values.items()).encode()

    def check(self, last: bytes) -> None:
        """SaslError unless the server has shown that it knows the password."""
        proof = parse(last).get("rspauth", "")
        if not hmac.compare_digest(proof.encode(), self._proof_of_server.encode()):
            raise SaslError("the server does not know the password itself")


def parse(message: bytes) -> dict[str, str]:
    """The fields of a message of the server's. SaslError."""
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise SaslError("the server's message is no text") from None
    fields: dict[str, str] = {}
    position = 0
    while position < len(text):
        found = _FIELD.match(text, position)
        if found is None:
            raise SaslError(f"the server's message is not understood: {text[:100]!r}")
        name, value = found.groups()
        if value.startswith('"'):
            value = re.sub(r"\\(.)", r"\1", value[1:-1])
        fields[name.lower()] = value
        position = found.end()
    return fields


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data).digest()


def _encode(text: str) -> bytes:
    """A text as it is hashed: in ISO 8859-1 if possible, else in UTF-8."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _quoted(text: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'
