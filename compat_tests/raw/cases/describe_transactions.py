"""DescribeTransactions: odd frames, and ids that are not there. What is, other scripts ask for."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases, Ground, Script
from kavka.compat_tests.raw.frames import add_frames, given
from kavka.compat_tests.raw.transactions import Producer

CASES = Cases("DescribeTransactions")

add_frames(CASES, lambda on: {"transactional_ids": ["nobody's"]}, topics=[])
for label, ids in {
    "nobody": [],
    "an empty id": [""],
    "some that are not there": ["a", "", "ä/ \0?", "n" * 10_000],
    "the same twice": ["a", "a"],
    "null": None,
}.items():
    CASES.add(label, given({"transactional_ids": ids}), topics=[])


@CASES.case(topics=[])
def some_are_there(on: Ground) -> Script:
    first, second = Producer(on, "-1"), Producer(on, "-2")
    yield from first.init()
    yield from second.init()
    names = [first.transactional_id, "nobody's", second.transactional_id, first.transactional_id]
    yield on.ask(transactional_ids=names)
