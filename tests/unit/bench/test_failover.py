"""Where Apache Kafka has a group or a transaction coordinated."""

from __future__ import annotations

import pytest
from bench.failover import partition_of


@pytest.mark.parametrize(
    ("name", "hashed"),  # by Java's String.hashCode()
    [
        ("", 0),
        ("a", 97),
        ("abc", 96354),
        ("hello", 99162322),
        ("Hello, world!", -1880044555),
        ("\N{GRINNING FACE}", 0xD83D * 31 + 0xDE00),  # two units of UTF-16
    ],
)
def test_a_name_has_the_partition_of_its_hash(name: str, hashed: int) -> None:
    assert partition_of(name, 50) == abs(hashed) % 50
    assert partition_of(name, 7) == abs(hashed) % 7


def test_the_smallest_hash_has_no_absolute_value() -> None:
    name = "polygenelubricants"  # known for its hash, -2**31
    assert partition_of(name, 50) == 0
    assert partition_of(name, 7) == 0
