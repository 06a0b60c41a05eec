"""The order of Java's HashMap, as Java 17 printed it."""

from __future__ import annotations

from kavka.tools.admin.java_order import copied_order, hash_order

NAMES = ["__hidden", "a_b.c", "orders", "other", "own", "placed"]


def test_a_map_of_topics() -> None:
    """Apache Kafka's kafka-topics --describe printed six topics so."""
    assert copied_order(NAMES) == ["other", "a_b.c", "orders", "placed", "__hidden", "own"]


def test_a_map_that_has_grown() -> None:
    """`new HashMap<>()` with the keys k0 to k19, and one beyond the basic plane."""
    face = "\N{GRINNING FACE}"
    printed = "0 1 2 3 4 5 11 6 10 7 13 8 12 9 15 14 17 16 19 18".split()
    keys = [f"k{number}" for number in range(20)]
    assert hash_order([*keys, face]) == [*(f"k{number}" for number in printed), face]


def test_keys_come_once() -> None:
    assert hash_order(["a", "b", "a"]) == ["a", "b"]
