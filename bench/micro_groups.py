"""The group coordinator inside the process: what asking a group's machine costs, and a heartbeat.

As in `micro_server` nothing reaches a socket or a disk.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from bench import frames
from bench.micro_server import START_S_MAX, InProcess
from kavka.groupcoord.offset_records import (
    NO_TIME,
    NO_TOPIC_ID,
    CommittedOffset,
    encode,
    partition_key,
    topic_key,
)
from kavka.groupcoord.shard import GroupShard
from kavka.log.journal import Decision, JournalRecord, Reply, ReplyFuture

Named = tuple[str, Callable[[], object]]

GROUP: Final = "a-group-of-consumers"
RECORDS: Final = (1, 100)


def calls(scratch: Path) -> Iterator[Named]:
    """Everything to measure here; files go to `scratch`."""
    loop = asyncio.new_event_loop()
    broker = InProcess(loop, scratch / "groups")
    try:
        loop.run_until_complete(asyncio.wait_for(broker.start(), START_S_MAX))
        groups = broker.parts.groups
        loop.run_until_complete(asyncio.wait_for(groups.create_topic(), START_S_MAX))
        yield "groups: call, answered at once", partial(groups.call, GROUP, _answer)
        yield "groups: read", partial(groups.read, GROUP, _look)
        for count in RECORDS:
            write = partial(_write, [_record(number) for number in range(count)])
            yield f"groups: call, {count} records appended", partial(groups.call, GROUP, write)
        yield "groups: FindCoordinator", partial(broker.ask, _find_coordinator())
        yield "groups: Heartbeat of nobody", partial(broker.ask, _heartbeat())
        loop.run_until_complete(broker.stop())
    finally:
        loop.close()


def _find_coordinator() -> bytes:
    """Version 1: key and its kind."""
    return frames.frame(10, 1, frames.string(GROUP) + b"\0")


def _heartbeat() -> bytes:
    """Version 0: group, generation, member."""
    body = frames.string(GROUP) + struct.pack(">i", 1) + frames.string("member")
    return frames.frame(12, 0, body)


def _answer(shard: GroupShard, future: ReplyFuture, now_ms: int) -> Decision:
    return Decision(replies=[Reply(future, 0)])


def _look(shard: GroupShard, now_ms: int) -> int:
    return now_ms


def _write(
    records: list[JournalRecord], shard: GroupShard, future: ReplyFuture, now_ms: int
) -> Decision:
    return Decision(records, [Reply(future, 0)])


def _record(partition: int) -> JournalRecord:
    value = encode(CommittedOffset(1000, 3, "", 0, NO_TIME, NO_TOPIC_ID))
    return JournalRecord(partition_key(topic_key(GROUP, "a-topic"), partition), value)
