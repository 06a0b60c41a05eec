"""Java's hash of a text, by its definition and by what Java says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.server.runtime import java_hash as hashes
from kavka.server.runtime.java_hash import java_hash


def hash_of(text: str) -> int:
    """`String.hashCode` by its definition: a sum of powers of 31."""
    units = text.encode("utf-16-le", "surrogatepass")
    codes = [units[at] + 256 * units[at + 1] for at in range(0, len(units), 2)]
    total = sum(code * 31 ** (len(codes) - 1 - at) for at, code in enumerate(codes))
    signed = (total + 2**31) % 2**32 - 2**31
    return 0 if signed == -(2**31) else abs(signed)


@settings(deadline=None)  # CI is slow at times
@given(st.text())
def test_the_hash_is_javas(text: str) -> None:
    assert java_hash(text) == hash_of(text)


@pytest.mark.parametrize("size", [1, 255, 256, 257, 511, 512, 513, 2_000])
@settings(deadline=None)
@given(text=st.text(min_size=1, max_size=7))
def test_the_hash_of_a_long_text(text: str, size: int) -> None:
    long = (text * size)[:size]
    assert java_hash(long) == hash_of(long)


def test_long_ids_are_not_kept() -> None:
    """10,000 of the longest would take 300 MB."""
    kept = hashes._cached_hash.cache_info().currsize
    java_hash("x" * (hashes.HASHED_CHARACTERS_MAX + 1) + str(kept))
    assert hashes._cached_hash.cache_info().currsize == kept


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello world", 1794106052),
        ("polygenelubricants", 0),  # the least integer
        ("\N{GRINNING FACE}", 1772899),
    ],
)
def test_known_hashes(text: str, expected: int) -> None:
    assert java_hash(text) == expected
