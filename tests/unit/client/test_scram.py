"""The client's side of SCRAM, by the examples of the RFCs."""

from __future__ import annotations

import pytest

from kavka.client.scram import ScramClient, ScramFailed

NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
"""Of RFC 7677, section 3: user `user`, password `pencil`."""

ANSWER = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def _client(password: str = "pencil", user: str = "user", *, is_token: bool = False) -> ScramClient:
    return ScramClient("SCRAM-SHA-256", user, password, NONCE, is_token=is_token)


def test_the_example_of_the_rfc() -> None:
    client = _client()
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert client.final(CHALLENGE) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    client.check(ANSWER)


def test_signs_in_names_are_escaped_and_tokens_are_told() -> None:
    client = _client(user="a=b,c", is_token=True)
    assert client.first() == b"n,,n=a=3Db=2Cc,r=rOprNGfwEbeRWgbNEkqO,tokenauth=true"


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (b"r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "not one of SCRAM"),
        (b"", "not one of SCRAM"),
        (CHALLENGE.replace(b"W22Z", b"="), "not one of SCRAM"),
        (CHALLENGE.replace(b"4096", b"4095"), "4095 iterations"),
        (CHALLENGE.replace(b"4096", b"4294967296"), "4294967296 iterations"),
    ],
)
def test_a_challenge_that_can_not_be_is_refused(challenge: bytes, why: str) -> None:
    with pytest.raises(ScramFailed, match=why):
        _client().final(challenge)


@pytest.mark.parametrize(
    ("password", "answer", "why"),
    [
        ("pencil", ANSWER.replace(b"6rri", b"7rri"), "does not know the password itself"),
        ("pen", ANSWER, "does not know the password itself"),
        ("pencil", b"e=other-error", "other-error"),
        ("pencil", b"v=6rri&", "not one of SCRAM"),
        ("pencil", b"", "not one of SCRAM"),
    ],
)
def test_a_server_must_know_the_password_too(password: str, answer: bytes, why: str) -> None:
    client = _client(password)
    client.final(CHALLENGE)
    with pytest.raises(ScramFailed, match=why):
        client.check(answer)
