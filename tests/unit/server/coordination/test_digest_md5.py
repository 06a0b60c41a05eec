"""SASL DIGEST-MD5, judged by the example of RFC 2831 and by a server of our own writing."""

from __future__ import annotations

import hashlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.server.coordination.digest_md5 import DigestMd5, Identity, SaslError, parse, proof

CHALLENGE = b'realm="zk-sasl-md5",nonce="abc+/=",charset=utf-8,algorithm=md5-sess'
"""As ZooKeeper 3.8 sends it."""


def test_the_example_of_the_rfc() -> None:
    """Section 4: user chris, with IMAP."""
    who = Identity("chris", "elwood.innosoft.com", "secret")
    drawn = ("OA6MG9tEQGm2hh", "OA6MHXh6VqTrRk")
    uri = "imap/elwood.innosoft.com"
    of_client = proof(who, *drawn, purpose="AUTHENTICATE", uri=uri)
    assert of_client == "d388dad90d4bbd760a152321f2143af7"
    assert proof(who, *drawn, purpose="", uri=uri) == "ea40f60335c427b5527b84dbabcdfffd"


def md5(*parts: bytes) -> bytes:
    return hashlib.md5(b":".join(parts)).digest()


class Server:
    """Checks an answer by the formulas of RFC 2831, section 2.1.2.1."""

    def __init__(self, password: bytes) -> None:
        self._password = password

    def last_word(self, answer: bytes) -> bytes:
        fields = parse(answer)
        assert fields["digest-uri"] == "zookeeper/zk-sasl-md5" and fields["nc"] == "00000001"
        assert (fields["nonce"], fields["qop"]) == ("abc+/=", "auth")
        try:
            name = fields["username"].encode("latin-1")
        except UnicodeEncodeError:
            name = fields["username"].encode()
        secret = md5(name, b"zk-sasl-md5", self._password)
        self._a1 = md5(secret, b"abc+/=", fields["cnonce"].encode()).hex().encode()
        self._cnonce = fields["cnonce"].encode()
        assert fields["response"] == self._word(b"AUTHENTICATE"), "the password is wrong"
        return b"rspauth=" + self._word(b"").encode()

    def _word(self, purpose: bytes) -> str:
        of_uri = md5(purpose, b"zookeeper/zk-sasl-md5").hex().encode()
        return md5(self._a1, b"abc+/=", b"00000001", self._cnonce, b"auth", of_uri).hex()


@given(username=st.text(min_size=1), password=st.text(min_size=1), seed=st.integers())
def test_both_sides_know_the_password(username: str, password: str, seed: int) -> None:
    try:
        stored = password.encode("latin-1")
    except UnicodeEncodeError:
        stored = password.encode()
    client = DigestMd5(username, password, Random(seed))
    client.check(Server(stored).last_word(client.respond(CHALLENGE)))


def test_a_server_that_does_not_know_the_password() -> None:
    client = DigestMd5("kafka", "secret", Random(1))
    client.respond(CHALLENGE)
    for last in (b"", b"rspauth=", b"rspauth=d388dad90d4bbd760a152321f2143af7"):
        with pytest.raises(SaslError, match="does not know the password"):
            client.check(last)


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (b"", "no nonce"),
        (b"\xff", "no text"),
        (b"nonce", "not understood"),
        (b'nonce="a",algorithm=md5', "not md5-sess"),
        (b'nonce="a",algorithm=md5-sess,qop="auth-int,auth-conf"', "demands"),
    ],
)
def test_challenges_that_are_refused(challenge: bytes, reason: str) -> None:
    with pytest.raises(SaslError, match=reason):
        DigestMd5("kafka", "secret", Random(1)).respond(challenge)
