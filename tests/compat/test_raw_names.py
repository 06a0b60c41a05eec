"""Drawn ids get names by when they were met, wherever they appear."""

from __future__ import annotations

from typing import Any

from kavka.compat_tests.raw.names import Names

FIRST = "tester-6ac3981f-70d7-4cd4-b360-66463d38f975"
SECOND = "i-b4bd23b5-2d09-4569-ab12-d5ae208b8917"
SHORT = "FTcNPgSzQ0SPwXyZ01_-ab"


def names(*met: str) -> Names:
    made = Names()
    for member_id in met:
        made.learn({"member_id": member_id})
    return made


def test_ids_are_named_in_the_order_in_which_they_were_met() -> None:
    named = names(SECOND, FIRST, SECOND, SHORT).named([FIRST, {"leader": SECOND}, f"of {SHORT}."])
    assert named == ["tester-<id 2>", {"leader": "i-<id 1>"}, "of <id 3>."]


def test_ids_that_no_broker_generated_keep_their_name() -> None:
    for answer in ({"member_id": "member-1"}, {"member_id": ""}, {"member_id": None}, {}, None):
        made = Names()
        made.learn(answer)
        value: Any = {"member_id": "member-1", "count": 1, "bytes": b"member-1"}
        assert made.named(value) == value


def test_an_id_that_was_not_met_is_shown_as_it_is() -> None:
    assert names(FIRST).named(SECOND) == SECOND


def test_producers_are_named_by_their_ids_and_nothing_else_is() -> None:
    made = Names()
    for producer_id in (7, -1, 3, 7):
        made.learn({"producer_id": producer_id})
    named = made.named([{"producer_id": 3, "offset": 3}, {"producer_id": 7}, {"producer_id": 5}])
    assert named == [
        {"producer_id": "<producer 2>", "offset": 3},
        {"producer_id": "<producer 1>"},
        {"producer_id": 5},
    ]
