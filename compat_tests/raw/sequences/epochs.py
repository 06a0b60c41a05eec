"""OffsetCommit of members of the newer protocol, by member epoch (KIP-848)."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases, Ground, Script, Topic
from kavka.compat_tests.raw.consumer_members import ConsumerMember
from kavka.compat_tests.raw.members import Member, offsets_of, simple_commit

CASES = Cases("OffsetCommit")
EPOCHS_SINCE = 9
T = Topic("t", partitions=2, shared=True)


@CASES.case(topics=[T], since=6)
def by_epoch(on: Ground) -> Script:
    new = ConsumerMember(on)
    yield from new.join()
    yield from new.own()
    alike = Member(on, "2")
    alike.id = new.id
    for epoch in (new.epoch, new.epoch - 1, new.epoch + 1, 0, -1, -2):
        yield alike.committing(on.topic, generation_id_or_member_epoch=epoch)
    yield alike.committing(on.topic, member_id="somebody", generation_id_or_member_epoch=new.epoch)
    yield alike.committing(on.topic, member_id="", generation_id_or_member_epoch=new.epoch)
    yield simple_commit(on, on.topic, 9)
    yield offsets_of(on)
    yield new.leaving()
    yield simple_commit(on, on.topic, 9)
    yield offsets_of(on)


@CASES.case(topics=[T], since=EPOCHS_SINCE)
def no_group_by_epoch(on: Ground) -> Script:
    alike = Member(on)
    yield alike.committing(on.topic, member_id="somebody", generation_id_or_member_epoch=0)
    yield alike.committing(on.topic, member_id="somebody", generation_id_or_member_epoch=-1)
