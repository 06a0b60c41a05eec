"""Names of brokers, as Java reads numbers. Who may is seen with each API."""

from __future__ import annotations

import pytest

from kavka.server.handlers.common.config_rights import node_id


@pytest.mark.parametrize(
    ("name", "number"),
    [("0", 0), ("7", 7), ("+7", 7), ("-7", -7), ("007", 7), ("2147483647", 2**31 - 1)],
)
def test_numbers(name: str, number: int) -> None:
    assert node_id(name) == number


@pytest.mark.parametrize(
    "name", ["", "x", " 7", "7 ", "7_0", "7.0", "0x7", "--7", "2147483648", "-2147483649", "٧"]
)
def test_what_is_none(name: str) -> None:
    assert node_id(name) is None
