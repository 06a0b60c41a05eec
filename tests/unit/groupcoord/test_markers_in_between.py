"""A transaction marker that is applied between two steps of a decision has the effect of one before
the decision: in the log it is before the decision's records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kavka.groupcoord import listing, offsets
from kavka.groupcoord.offset_records import NO_TOPIC_ID
from kavka.groupcoord.offsets import Commit, OffsetToCommit
from kavka.groupcoord.shard import GroupShard
from kavka.log.journal import DecisionOrSteps, Producer, ReplyFuture
from kavka.wire.steps import run_at_once
from support.offset_groups import OffsetKit

COUNT = 9
PRODUCER_ID = 7

Decide = Callable[[OffsetKit], DecisionOrSteps]


def _commit(kit: OffsetKit, producer_id: int | None) -> DecisionOrSteps:
    offsets_to_commit = [OffsetToCommit("t", index, 100 + index) for index in range(1, COUNT + 2)]
    request = Commit("g", "", None, -1, 9, offsets_to_commit)
    if producer_id is None:
        return kit.shard.offsets.commit(request, ReplyFuture(), kit.now_ms)
    producer = Producer(producer_id, 0)
    return kit.shard.offsets.commit_transactional(request, producer, ReplyFuture(), kit.now_ms)


DECISIONS: dict[str, Decide] = {
    "commit": lambda kit: _commit(kit, None),
    "commit in the next transaction": lambda kit: _commit(kit, PRODUCER_ID),
    "commit in another transaction": lambda kit: _commit(kit, PRODUCER_ID + 1),
    "delete offsets": lambda kit: kit.shard.offsets.delete(
        "g", [("t", range(COUNT + 1)), ("u", [0])], ReplyFuture()
    ),
    "delete the group": lambda kit: listing.delete_group(
        kit.shard.state, kit.shard.offsets, "g", ReplyFuture()
    ),
}


def contents(shard: GroupShard) -> tuple[Any, ...]:
    kept = shard.offsets
    return (
        {
            (topic, index): kept.fetch("g", topic, NO_TOPIC_ID, [index], require_stable=False)
            for topic, indexes in kept.partitions("g").items()
            for index in indexes
        },
        sorted(kept.pending.all_partitions()),
        sorted(shard.state.groups),
    )


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("name", DECISIONS)
def test_a_replay_gives_the_same_offsets(
    name: str, committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "OFFSETS_PER_STEP", 2)
    monkeypatch.setattr(listing, "OFFSETS_PER_STEP", 2)
    pause = 0
    while True:
        kit = OffsetKit()
        kit.commit_offsets({("t", index): index for index in range(COUNT)})
        pending = {("t", index): 10 + index for index in range(3, COUNT + 1)}
        kit.commit_offsets({**pending, ("u", 0): 5}, producer_id=PRODUCER_ID)
        work = kit.journal.execute_in_steps(DECISIONS[name](kit), kit.now_ms)
        for number in range(pause + 1):
            if next(work, "over") == "over":
                break
            if number == pause:
                # as `SerialQueue.do_next` does
                kit.end(PRODUCER_ID, committed=committed)
        else:
            run_at_once(work)
            kit.commit()
            assert contents(kit.shard) == contents(kit.replayed())
            pause += 1
            continue
        break
    assert pause >= 3, "the decision was made in one go"
