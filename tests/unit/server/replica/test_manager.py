"""Replicas that a broker hosts. Others: scenarios/replica/leader_and_isr.txt."""

from __future__ import annotations

from support.replicas import Hosting
from support.virtual import run_until_idle


async def test_a_removed_replica_is_not_hosted_and_wakes_waiting_requests(hosting: Hosting) -> None:
    replica = await hosting.lead()
    waiting = hosting.purgatory.wait([replica.key], lambda: True, 60)
    assert hosting.manager.of_topic("t") == [replica]
    assert hosting.manager.remove("t", 0) is replica
    assert hosting.manager.remove("t", 0) is None
    assert hosting.manager.of_topic("t") == []
    assert not replica.partition.is_leader
    await run_until_idle()
    assert waiting.done()
