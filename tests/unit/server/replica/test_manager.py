"""Which replicas a broker hosts, and what it answers for those that it does not."""

from __future__ import annotations

from kavka.wire.errors import ErrorCode as Code
from support.refusals import refusal
from support.replicas import Hosting, append, leading, telling
from support.virtual import settle


async def test_where_a_client_is_told_to_look(hosting: Hosting) -> None:
    manager = hosting.manager
    assert refusal(lambda: manager.leader("t", 0)) == Code.UNKNOWN_TOPIC_OR_PARTITION
    await hosting.port.update_metadata(telling("t", 0, 1))
    assert refusal(lambda: manager.leader("t", 0)) == Code.NOT_LEADER_OR_FOLLOWER
    assert refusal(lambda: manager.leader("t", 2)) == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(lambda: manager.leader("t", -1)) == Code.UNKNOWN_TOPIC_OR_PARTITION
    replica = await hosting.lead("t", 1)
    assert manager.leader("t", 1) is replica
    assert manager.find("t", 0) is None and list(manager) == [replica]
    elsewhere = leading("t", 1, leader=2, epoch=1, isr=(2,), replicas=(1, 2))
    await hosting.port.leader_and_isr(elsewhere)
    assert refusal(lambda: manager.leader("t", 1)) == Code.NOT_LEADER_OR_FOLLOWER
    assert manager.find("t", 1) is replica, "which it still hosts"


async def test_watermarks_to_be_saved(hosting: Hosting) -> None:
    append(await hosting.lead("t", 0))
    await hosting.lead("u", 3)
    assert hosting.manager.high_watermarks() == {("t", 0): 3, ("u", 3): 0}


async def test_a_removed_replica_leads_no_more_and_wakes_who_waits(hosting: Hosting) -> None:
    replica = await hosting.lead()
    waiting = hosting.purgatory.wait([replica.key], lambda: True, 60)
    assert hosting.manager.of_topic("t") == [replica]
    assert hosting.manager.remove("t", 0) is replica
    assert hosting.manager.remove("t", 0) is None
    assert hosting.manager.of_topic("t") == []
    assert not replica.partition.is_leader
    await settle()
    assert waiting.done()
