"""Which offsets a group gets in the target: pure.

A consumer that goes on in the target misses nothing: its offset there is that of the first record
which it has not passed in the source. If that record is not copied yet, it is the end of what is.
An offset that a consumer of the target has committed itself is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kavka.tools.admin.group_requests import Committed
from kavka.tools.admin.partition_offsets import Place
from kavka.tools.mirror.ledger import Written
from kavka.tools.mirror.offset_map import OffsetMap

NONE = Written(-1, -1)


class Commits(NamedTuple):
    """What to do for a group."""

    offsets: Mapping[Place, Committed]
    """To be committed in the target."""

    ledger: Mapping[Place, Written]
    """To be written to the ledger before."""

    foreign: int
    """How many offsets are left as consumers of the target have committed them."""


def translated(
    committed: Mapping[Place, Committed],
    maps: Mapping[Place, OffsetMap],
    starts: Mapping[Place, int],
) -> dict[Place, Committed]:
    """A group's offsets in the source as those of the target, of the partitions that are copied:
    those with a start. `starts`: where partitions begin in the target."""
    found = {}
    for place, one in committed.items():
        if place not in starts:
            continue
        offset = maps[place].translate(one.offset) if place in maps else None
        offset = starts[place] if offset is None else max(offset, starts[place])
        found[place] = Committed(offset, None, one.metadata)
    return found


def commits(
    wanted: Mapping[Place, Committed],
    there: Mapping[Place, Committed],
    written: Mapping[Place, Written],
) -> Commits:
    """Of one group. `there`: its offsets in the target; `written`: those by the mirror."""
    offsets, ledger, foreign = {}, {}, 0
    for place, one in wanted.items():
        has = there[place].offset if place in there else -1
        before = written.get(place, NONE)
        if has >= 0 and has not in before:
            foreign += 1
            if before != NONE:
                ledger[place] = NONE  # it stays the consumer's, whatever that commits
            continue
        if place in there and (has, there[place].metadata) == (one.offset, one.metadata):
            if before != Written(has, has):
                ledger[place] = Written(has, has)
            continue
        offsets[place] = one
        if before != Written(one.offset, has):
            ledger[place] = Written(one.offset, has)
    return Commits(offsets, ledger, foreign)
