"""What is sent to brokers of a password."""

from __future__ import annotations

import base64
import hashlib
import hmac
from random import Random

import pytest

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.scram_credentials import upsertion


class Salted(Random):
    """Gives one salt."""

    def randbytes(self, n: int) -> bytes:
        return base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")


def test_the_example_of_rfc_7677() -> None:
    made = upsertion("user", "SCRAM-SHA-256", "password=pencil", Salted())
    assert (made.name, made.mechanism, made.iterations) == ("user", 1, 4096)
    messages = (
        "n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        "s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,"
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    key = hmac.digest(made.salted_password, b"Server Key", "sha256")
    signature = base64.b64encode(hmac.digest(key, messages.encode(), "sha256"))
    assert signature == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_iterations_and_mechanism() -> None:
    made = upsertion("u", "SCRAM-SHA-512", "iterations=5000,password=a,b=c", Random(1))
    expected = hashlib.pbkdf2_hmac("sha512", b"a,b=c", made.salt, 5000)
    assert (made.mechanism, made.iterations, made.salted_password) == (2, 5000, expected)
    assert upsertion("u", "SCRAM-SHA-256", "iterations=-1,password=x", Random(1)).iterations == 4096


def test_a_salt_is_used_once() -> None:
    random = Random(1)
    salts = {upsertion("u", "SCRAM-SHA-256", "password=x", random).salt for _ in range(3)}
    assert len(salts) == 3


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("pencil", "Invalid credential property SCRAM-SHA-256=pencil"),
        ("iterations=,password=x", "Invalid credential property"),
        ("iterations=4095,password=x", "4095 is less than the minimum 4096"),
        ("iterations=2147483648,password=x", "more than the maximum"),
        ("password=", "must not be empty"),
    ],
)
def test_what_is_no_credential(text: str, why: str) -> None:
    with pytest.raises(Failed, match=why):
        upsertion("u", "SCRAM-SHA-256", text, Random(1))
