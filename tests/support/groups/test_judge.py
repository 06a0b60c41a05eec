"""The judge of groups complains of what it should, and of nothing else."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from support.groups.events import Event, Place, read
from support.groups.judge import (
    GroupJudge,
    Processed,
    given_up,
    judged,
    unprocessed,
    went_back,
)

P, Q = "t/0", "t/1"
STABLE = Event("g", "stable", places=(P, Q))


def assigned(member: str, *places: Place) -> Event:
    return Event("g", "assigned", member, places=places)


def moved(kind: str, member: str, *places: Place) -> Event:
    return Event("g", kind, member, places=places)


def processed(member: str, at: Place, first: int, last: int) -> Event:
    return Event("g", "read", member, ranges=((at, first, last),))


def committed(member: str, offsets: Mapping[Place, int]) -> Event:
    return Event("g", "committed", member, offsets=offsets)


def judge(*events: Event) -> GroupJudge:
    return judged(events)["g"]


BEGIN = (assigned("a", P), assigned("b", Q))


def test_a_good_history() -> None:
    found = judge(
        *BEGIN,
        STABLE,
        processed("a", P, 0, 4),
        committed("a", {P: 5}),
        processed("b", Q, 0, 1),
        committed("b", {Q: 2}),
        processed("a", P, 5, 6),  # and is killed before it commits
        moved("killed", "a"),
        moved("revoked", "b", Q),
        assigned("b", P, Q),
        processed("b", P, 5, 9),
        committed("b", {P: 10}),
        STABLE,
        processed("b", P, 10, 10),
        moved("left", "b"),
    )
    assert found.complaints == []
    assert found.times_settled == 2
    assert found.committed == {P: 10, Q: 2}
    assert dict(found.readers) == {"a": 7, "b": 8}
    assert found.owned("b") == []
    assert unprocessed(found, [(P, offset) for offset in range(11)]) == []


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        ((assigned("a", P), assigned("b", P, Q), STABLE), "t/0 has the owners ['a', 'b']"),
        ((assigned("a", P), STABLE), "t/1 has the owners []"),
        ((*BEGIN, moved("left", "b"), STABLE), "t/1 has the owners []"),
        ((*BEGIN, moved("killed", "b"), STABLE), "t/1 has the owners []"),
        ((*BEGIN, moved("owns", "b"), STABLE), "t/1 has the owners []"),
        ((*BEGIN, moved("lost", "b", Q), STABLE), "t/1 has the owners []"),
        ((*BEGIN, moved("owns", "b", P, Q), STABLE), "t/0 has the owners ['a', 'b']"),
        ((*BEGIN, STABLE, processed("b", P, 0, 1)), "b read t/0 from 0, which {'a'} owns"),
        (
            (*BEGIN, processed("a", P, 0, 1), processed("a", P, 3, 4)),
            "a skipped t/0 from 2 to 2",
        ),
        (
            (*BEGIN, processed("a", P, 0, 1), committed("a", {P: 3})),
            "a committed t/0 3, processed are those before 2",
        ),
        (
            (
                *BEGIN,
                processed("a", P, 0, 4),
                moved("revoked", "a", P),
                assigned("b", P),
                processed("b", P, 6, 7),
                committed("b", {P: 8}),
            ),
            "b committed t/0 8, processed are those before 5",
        ),
        (
            (
                *BEGIN,
                processed("a", P, 0, 4),
                committed("a", {P: 5}),
                committed("b", {P: 4}),
            ),
            "b set t/0 back from 5 to 4",
        ),
    ],
)
def test_a_bad_history(events: tuple[Event, ...], complaint: str) -> None:
    assert judge(*events).complaints == [f"group g: {complaint}"]


def test_two_members_that_process_one_record_in_a_stable_group() -> None:
    found = judge(*BEGIN, STABLE, processed("a", P, 0, 1), processed("b", P, 1, 1))
    assert "group g: a and b processed t/0 1" in found.complaints


def test_a_record_processed_twice_during_a_rebalance_is_allowed() -> None:
    events = (
        *BEGIN,
        STABLE,
        processed("a", P, 0, 1),
        moved("revoked", "a", P),
        assigned("b", P),
        processed("b", P, 0, 1),
    )
    assert judge(*events).complaints == []


def test_rewound_on_purpose() -> None:
    events = (
        *BEGIN,
        processed("a", P, 0, 4),
        committed("a", {P: 5}),
        Event("g", "rewound", offsets={P: 0}),
        committed("a", {P: 2}),
    )
    assert judge(*events).complaints == []
    assert len(judge(*events, committed("a", {P: 1})).complaints) == 1


def test_what_was_not_processed() -> None:
    found = judge(*BEGIN, processed("a", P, 0, 1), processed("b", P, 3, 3))
    acknowledged = [(P, 0), (P, 2), (P, 3), (Q, 0)]
    assert unprocessed(found, acknowledged) == [
        "group g: t/0 2 was not processed",
        "group g: t/1 0 was not processed",
    ]


def test_groups_are_judged_apart_in_the_order_of_their_times() -> None:
    late = Event("other", "committed", "c", at_ms=2, offsets={P: 1})
    early = Event("other", "read", "c", at_ms=1, ranges=((P, 0, 0),))
    judges = judged([late, assigned("a", P), early])
    assert sorted(judges) == ["g", "other"]
    assert judges["other"].complaints == []


def test_processed_out_of_order() -> None:
    records = Processed()
    records.add(3, 4)
    records.add(1, 1)
    assert records.end == 0
    assert [offset for offset in range(6) if offset in records] == [1, 3, 4]
    records.add(0, 0)
    assert records.end == 2
    records.add(2, 2)
    assert records.end == 5
    records.add(0, 1)
    assert records.end == 5


def test_stored_commits_that_go_back() -> None:
    assert went_back([("g", P, 1), ("h", P, 0), ("g", Q, 0), ("g", P, 1), ("g", P, 2)]) == []
    assert went_back([("g", P, 5), ("h", P, 9), ("g", P, 4), ("g", P, 5)]) == [
        "group g: t/0 4 stored after 5"
    ]


def test_a_stored_commit_may_be_late_if_its_member_has_given_it_up() -> None:
    stored = [("g", P, 5), ("g", P, 4), ("g", P, 6)]
    refused = Event("g", "refused", "a", offsets={P: 4})
    assert went_back(stored, given_up([refused])) == []
    others = [
        Event("g", "committed", "a", offsets={P: 4}),
        Event("g", "refused", "a", offsets={P: 3, Q: 4}),
        Event("h", "refused", "a", offsets={P: 4}),
    ]
    assert went_back(stored, given_up(others)) == ["group g: t/0 4 stored after 5"]


def test_reading_a_line() -> None:
    line = b'{"t":7,"m":"a","e":"read","r":[["t/0",1,2]]}'
    assert read(line, {"a": "g"}) == Event("g", "read", "a", 7, ranges=((P, 1, 2),))
    line = b'{"t":8,"m":"a","e":"committed","o":{"t/0":3}}'
    assert read(line, {"a": "g"}) == Event("g", "committed", "a", 8, offsets={P: 3})
    line = b'{"t":9,"m":"a","e":"failed","why":"because"}'
    assert read(line, {"a": "g"}) == Event("g", "failed", "a", 9, why="because")
