"""The order of Java's HashMap and Scala's Set, as Java 17 printed them."""

from __future__ import annotations

import pytest

from kavka.tools.admin.java_order import (
    ComputedMap,
    copied_order,
    entity_order,
    hash_order,
    long_order,
    number_order,
    set_order,
)

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


def test_a_map_of_numbers() -> None:
    assert number_order([100000, 17, 1, 16, 33, 2, 65536]) == [16, 100000, 17, 1, 33, 65536, 2]


def test_keys_that_are_longs() -> None:
    """As kafka-transactions find-hanging lists the transactions of such producers."""
    assert long_order([777001, 777002, 777003]) == [777003, 777002, 777001]


def test_a_map_of_quotas() -> None:
    """Apache Kafka's kafka-configs --describe printed them so."""
    default, alice = (("user", None),), (("user", "alice"),)
    assert entity_order([alice, default]) == [default, alice]


def test_a_set() -> None:
    """kafka-configs --describe --entity-type groups printed six groups so; a few stay as they
    came."""
    printed = ["abc", "g2", "g", "xyz", "g3", "g4"]
    assert set_order(sorted(printed)) == set_order(reversed(printed)) == printed
    assert set_order(["g", "abc", "g4", "g", "g2"]) == ["g", "abc", "g4", "g2"]


def test_a_set_of_keys_with_one_hash() -> None:
    same = [first + second for first in ("Aa", "BB") for second in ("Aa", "BB")]
    assert set_order([*same, "x"]) == ["x", *same]


@pytest.mark.parametrize(
    ("count", "is_asked_again", "printed"),
    [
        (4, False, "0 21 7 14"),
        (13, False, "28 49 70 0 84 42 63 77 21 35 7 56 14"),
        (13, True, "70 0 84 42 63 77 21 35 7 56 14 28 49"),
        (14, False, "91 70 0 84 42 63 77 21 35 7 56 14 28 49"),
        (
            30,
            False,
            "91 70 77 98 35 56 14 161 182 140 189 147 168 105 203 126 0 84 42 63 21 7 28 49 196 154"
            " 175 112 133 119",
        ),
    ],
)
def test_a_map_whose_entries_are_computed(count: int, is_asked_again: bool, printed: str) -> None:
    """`computeIfAbsent` with the keys k0, k7, ..., and maybe with k0 once more."""
    made: ComputedMap[list[int]] = ComputedMap(list)
    for number in range(count):
        made.computed(f"k{7 * number}").append(number)
    if is_asked_again:
        made.computed("k0")
    assert made.in_order() == [f"k{number}" for number in printed.split()]
    assert made["k0"] == [0]


@pytest.mark.parametrize(
    ("keys", "printed"),
    [
        ("0 16 32 48 64 80 96 112 128 1", "0 32 64 96 128 1 16 48 80 112"),
        ("8 0 16 32 48 64 80 96 112 128 144 4 2", "0 32 64 96 128 2 4 8 16 48 80 112 144"),
        ("3 19 35 51 67 83 99 115 131", "3 35 67 99 131 19 51 83 115"),
    ],
)
def test_a_map_grows_when_one_bucket_is_full(keys: str, printed: str) -> None:
    """`new HashMap<>()` with these keys, nine or more of which are in one of 16 buckets."""
    assert number_order(map(int, keys.split())) == [int(key) for key in printed.split()]
