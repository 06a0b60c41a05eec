"""OffsetFetch of members of the newer protocol, by member epoch (KIP-848)."""

from __future__ import annotations

from typing import Any

from kavka.compat_tests.raw.case import Cases, Ground, Script, Topic
from kavka.compat_tests.raw.consumer_members import ConsumerMember
from kavka.compat_tests.raw.members import simple_commit
from kavka.compat_tests.raw.sequences.fetching import fetching, named

CASES = Cases("OffsetFetch")
T = Topic("t", partitions=3, shared=True)


@CASES.case(topics=[T], since=9)
def by_epoch(on: Ground) -> Script:
    yield simple_commit(on, on.topic, 9)
    new = ConsumerMember(on)
    yield from new.join()
    for member, epoch in (
        (new.id, new.epoch),
        (new.id, new.epoch - 1),
        (new.id, new.epoch + 1),
        (new.id, 0),
        (new.id, -1),
        ("somebody", new.epoch),
        ("", new.epoch),
        (None, -1),
        ("", -1),
    ):
        identity: dict[str, Any] = {"member_id": member, "member_epoch": epoch}
        yield fetching(on, [named(on, on.topic, 0, 1)], **identity)
        yield fetching(on, None, **identity)
