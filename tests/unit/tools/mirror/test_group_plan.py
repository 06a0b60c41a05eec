"""Which offsets a group gets in the target."""

from __future__ import annotations

import pytest

from kavka.tools.admin.group_requests import Committed
from kavka.tools.mirror.group_plan import NONE, Commits, commits, translated
from kavka.tools.mirror.ledger import (
    Ledger,
    Written,
    group_entry,
    offsets_entry,
    position_entry,
)
from kavka.tools.mirror.offset_map import Chunk, OffsetMap, Run

PLACE = ("t", 0)


def at(offset: int, metadata: str = "") -> Committed:
    return Committed(offset, None, metadata)


def test_offsets_of_what_is_copied_are_translated_with_their_metadata() -> None:
    copied = OffsetMap()
    copied.add([Run(10, 100, 5)])
    here = {PLACE: at(12, "note"), ("t", 1): at(7), ("other", 0): at(3)}
    found = translated(here, {PLACE: copied}, {PLACE: 0, ("t", 1): 40})
    assert found == {PLACE: at(102, "note"), ("t", 1): at(40)}


def test_no_offset_is_before_the_target_s_first_record() -> None:
    copied = OffsetMap()
    copied.add([Run(10, 100, 5)])
    assert translated({PLACE: at(10)}, {PLACE: copied}, {PLACE: 103}) == {PLACE: at(103)}


@pytest.mark.parametrize(
    ("there", "written", "found"),
    [
        (None, None, Commits({PLACE: at(5)}, {PLACE: Written(5, -1)}, 0)),
        (3, Written(3, -1), Commits({PLACE: at(5)}, {PLACE: Written(5, 3)}, 0)),
        (9, Written(9, 3), Commits({PLACE: at(5)}, {PLACE: Written(5, 9)}, 0)),  # backwards
        (3, Written(5, 3), Commits({PLACE: at(5)}, {}, 0)),  # killed before it was committed
        (5, Written(5, 3), Commits({}, {PLACE: Written(5, 5)}, 0)),  # before it was acknowledged
        (5, Written(5, 5), Commits({}, {}, 0)),
        (3, Written(4, 4), Commits({}, {PLACE: NONE}, 1)),  # set back by a consumer
        (4, Written(3, -1), Commits({}, {PLACE: NONE}, 1)),  # a consumer's own
        (4, NONE, Commits({}, {}, 1)),  # and back at what the mirror committed before
        (4, None, Commits({}, {}, 1)),
    ],
)
def test_only_offsets_by_the_mirror_are_replaced(
    there: int | None, written: Written | None, found: Commits
) -> None:
    has = {} if there is None else {PLACE: at(there)}
    before = {} if written is None else {PLACE: written}
    assert commits({PLACE: at(5)}, has, before) == found


def test_the_ledger_knows_what_was_written() -> None:
    entry = group_entry(("g", *PLACE), Written(5, 3))
    assert Ledger([entry]).groups == {("g", "t", 0): Written(5, 3)}


def test_the_ledger_knows_how_far_the_source_was_read() -> None:
    copied = offsets_entry(PLACE, Chunk(0, [Run(0, 0, 5)]))
    assert Ledger().position(PLACE) is None
    assert Ledger([copied]).position(PLACE) == 5
    assert Ledger([copied, position_entry(PLACE, 7)]).position(PLACE) == 7
    assert Ledger([position_entry(PLACE, 3), copied]).position(PLACE) == 5  # more was copied since
