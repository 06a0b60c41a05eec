"""Numbers as Java reads and writes them: what Java 17 printed."""

from __future__ import annotations

import math

import pytest

from kavka.tools.java_numbers import double_text, parse_double, parse_int, quotient, trimmed


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("0", "0.0"),
        ("-0", "-0.0"),
        ("1000", "1000.0"),
        ("12.5", "12.5"),
        ("0.001", "0.001"),
        ("0.0001", "1.0E-4"),
        ("9999999", "9999999.0"),
        ("10000000", "1.0E7"),
        ("12345678.5", "1.23456785E7"),
        ("1e22", "1.0E22"),
        ("-1.5e-7", "-1.5E-7"),
        ("0x1p3", "8.0"),
        ("0X.8P1f", "1.0"),
        ("50d", "50.0"),
        (" 7 \n", "7.0"),
        (".5", "0.5"),
        ("5.", "5.0"),
        ("NaN", "NaN"),
        ("+Infinity", "Infinity"),
        ("-Infinity", "-Infinity"),
        ("1e999", "Infinity"),
        ("-0x1p9999", "-Infinity"),
        ("5e-324", "4.9E-324"),
        ("2e23", "2.0E23"),
    ],
)
def test_a_double(text: str, printed: str) -> None:
    value = parse_double(text)
    assert value is not None
    assert double_text(value) == printed


@pytest.mark.parametrize("text", ["", "1_000", "inf", "nan", "1e", "0x1", "many", "1 0", "٣"])
def test_what_is_no_double(text: str) -> None:
    assert parse_double(text) is None


def test_an_int_is_one_of_32_bits() -> None:
    assert [parse_int(text) for text in ("7", "+7", "-7", "007")] == [7, 7, -7, 7]
    assert parse_int("2147483647") == 2**31 - 1 and parse_int("-2147483648") == -(2**31)
    assert not any(parse_int(text) for text in ("2147483648", "", " 1", "1.0", "x", "1_0"))


def test_what_is_no_number_stays_so() -> None:
    nan = parse_double("NaN")
    assert nan is not None and math.isnan(nan)


def test_trimming_leaves_other_spaces() -> None:
    assert trimmed("\x00 \t a\u00a0\n") == "a\u00a0"


def test_a_quotient_is_nearer_to_zero() -> None:
    """As Java's `-599_999L / 60_000` is -9."""
    assert [quotient(ms, 60_000) for ms in (-599_999, -1, 0, 599_999)] == [-9, 0, 0, 9]
    assert quotient(2**63 - 1, 60_000) == 153_722_867_280_912
