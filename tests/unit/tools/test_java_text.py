"""Text as Java reads and measures it: what Java 17 printed."""

from __future__ import annotations

import pytest

from kavka.tools.java_text import length, padded, text


@pytest.mark.parametrize(
    ("data", "read"),
    [
        (b"gr\xc3\xbc\xc3\x9fe", "grüße"),
        (b"\xff", "\ufffd"),
        (b"\xed\xa0\x80|", "\ufffd|"),
        (b"\xed\xa0\xbd\xed\xb8\x80|", "\ufffd\ufffd|"),
        (b"\xed\xa0|", "\ufffd|"),
        (b"\xf0\x9f\x98|", "\ufffd|"),
        (b"\xf5\x80|", "\ufffd\ufffd|"),
    ],
)
def test_what_is_malformed_is_replaced(data: bytes, read: str) -> None:
    assert text(data) == read


@pytest.mark.parametrize(
    ("shown", "units", "in_five"),
    [
        ("", 0, "     "),
        ("grü", 3, "grü  "),
        ("\U0001f600b", 3, "\U0001f600b  "),
        ("sixsix", 6, "sixsix"),
    ],
)
def test_length_counts_utf_16(shown: str, units: int, in_five: str) -> None:
    assert (length(shown), padded(shown, 5)) == (units, in_five)
