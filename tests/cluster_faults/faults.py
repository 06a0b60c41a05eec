"""How each kind of fault strikes, and how it ends. When it has ended all is well again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Protocol

from kafka import KafkaAdminClient, TopicPartition

from cluster_faults.cluster import SESSION_S, WITHIN_S, FaultyCluster, Member
from cluster_faults.network import ZOOKEEPER, Way
from cluster_faults.schedule import CONTROLLER, COORDINATOR, FOLLOWER, Fault
from support.wait import eventually

DELAY_S = 0.2
DUTY_S = (0.6, 0.1)
"""How long a slow follower does nothing, and then something."""


class Reborn(Protocol):
    """A topic that is deleted and created again while it is written to."""

    def recreate(self) -> None:
        """Delete it, and create it."""


class Faults:
    """Those of one run."""

    def __init__(self, cluster: FaultyCluster, topic: str, reborn: Reborn) -> None:
        """`topic`: of whose partitions victims are leaders or followers."""
        self.skipped: list[str] = []
        """Faults that this machine does not permit."""
        self._cluster = cluster
        self._topic = topic
        self._reborn = reborn

    def strike(self, fault: Fault) -> None:
        """Let it happen, and end."""
        KINDS[fault.kind](self, fault)

    def _victim(self, fault: Fault) -> Member:
        cluster = self._cluster
        if fault.victim == CONTROLLER:
            return cluster.members[cluster.controller]
        if fault.victim == COORDINATOR:
            return cluster.members[cluster.leader("__consumer_offsets", fault.partition)]
        leader = cluster.leader(self._topic, fault.partition)
        if fault.victim == FOLLOWER:
            return self._other(leader, fault)
        return cluster.members[leader]

    def _other(self, than: int, fault: Fault) -> Member:
        others = [member for number, member in self._cluster.members.items() if number != than]
        return others[fault.partition % len(others)]

    def _last(self, fault: Fault) -> None:
        time.sleep(fault.lasts * SESSION_S)

    def _kill(self, fault: Fault) -> None:
        victim = self._victim(fault)
        victim.kill()
        self._last(fault)
        victim.start()

    def _pause(self, fault: Fault) -> None:
        victim = self._victim(fault)
        victim.pause()
        self._last(fault)
        victim.resume()

    def _kill_all(self, fault: Fault) -> None:
        for member in self._cluster.members.values():
            member.kill()
        for member in self._cluster.members.values():
            member.launch()
        for member in self._cluster.members.values():
            member.await_ready(WITHIN_S)

    def _kill_zookeeper(self, fault: Fault) -> None:
        self._cluster.zookeeper.kill()
        self._last(fault)
        self._cluster.zookeeper.start()

    def _cut_from_zookeeper(self, fault: Fault) -> None:
        victim = self._victim(fault).name
        self._cut_ways(fault, (victim, ZOOKEEPER), (ZOOKEEPER, victim))

    def _expire_session(self, fault: Fault) -> None:
        self._cluster.expire_session(self._victim(fault).number)

    def _cut(self, fault: Fault) -> None:
        victim = self._victim(fault)
        other = self._other(victim.number, fault)
        self._cut_ways(fault, (victim.name, other.name), (other.name, victim.name))

    def _cut_one_way(self, fault: Fault) -> None:
        victim = self._victim(fault)
        self._cut_ways(fault, (victim.name, self._other(victim.number, fault).name))

    def _cut_ways(self, fault: Fault, *ways: Way) -> None:
        network = self._cluster.network
        network.cut(*ways)
        self._last(fault)
        network.heal(late=fault.late)

    def _fill_disk(self, fault: Fault) -> None:
        """A broker without a disk that works says so, and stops."""
        victim = self._victim(fault)
        if not victim.disk.is_small:
            self.skipped.append(f"{fault}: mounting is not permitted")
            return
        victim.disk.fill()
        eventually(
            victim.has_ended,
            within_s=WITHIN_S,
            what=f"broker {victim.name} stops, as its disk is full",
            detail=victim.tail,
        )
        assert "No space left on device" in victim.output(), victim.tail()
        victim.disk.empty()
        victim.start()

    def _wipe(self, fault: Fault) -> None:
        """A broker does not take a disk that is empty for its own, unless it is told so. Until then
        it has left every ISR."""
        victim = self._victim(fault)
        victim.kill()
        directory_id = victim.directory_id()
        victim.wipe()
        eventually(
            lambda: not self._cluster.in_isr(victim.number),
            within_s=WITHIN_S,
            what=f"broker {victim.name} is in no ISR",
            detail=self._cluster.tail,
        )
        victim.launch()
        eventually(
            victim.has_ended,
            within_s=WITHIN_S,
            what=f"broker {victim.name} does not start on an empty disk",
            detail=victim.tail,
        )
        assert directory_id in victim.output(), victim.tail()
        victim.settings["kavka.lost.log.dirs"] = directory_id
        victim.start()
        del victim.settings["kavka.lost.log.dirs"]

    def _slow_follower(self, fault: Fault) -> None:
        leader = self._cluster.leader(self._topic, fault.partition)
        victim = self._other(leader, fault)
        others = [one.name for one in self._cluster.members.values() if one is not victim]
        ways = [(victim.name, other) for other in others]
        self._cluster.network.slow(DELAY_S, *ways, *((other, name) for name, other in ways))
        until = time.monotonic() + 2 * fault.lasts * SESSION_S
        while time.monotonic() < until:
            victim.pause()
            time.sleep(DUTY_S[0])
            victim.resume()
            time.sleep(DUTY_S[1])
        self._cluster.network.heal()

    def _reassign(self, fault: Fault) -> None:
        """A replica is removed, and added again in another place of the order."""
        leader = self._cluster.leader(self._topic, fault.partition)
        removed = leader if fault.late else self._other(leader, fault).number
        left = [number for number in self._cluster.members if number != removed]
        for replicas in (left, [*left, removed]):
            self._assign(fault.partition, replicas)

    def _assign(self, partition: int, replicas: list[int]) -> None:
        place = TopicPartition(self._topic, partition)
        with closing(KafkaAdminClient(bootstrap_servers=self._cluster.bootstrap)) as admin:

            def accepted() -> bool:
                found: object = admin.alter_partition_reassignments({place: replicas})[place]
                return found is None

            eventually(accepted, within_s=WITHIN_S, what=f"{place} may be moved to {replicas}")
            eventually(
                lambda: self._cluster.replicas(self._topic, partition) == replicas,
                within_s=WITHIN_S,
                what=f"{place} is on {replicas}",
                detail=self._cluster.tail,
            )

    def _delete_topic(self, fault: Fault) -> None:
        self._reborn.recreate()


KINDS: Mapping[str, Callable[[Faults, Fault], None]] = {
    "kill": Faults._kill,
    "pause": Faults._pause,
    "kill all": Faults._kill_all,
    "kill zookeeper": Faults._kill_zookeeper,
    "zookeeper unreachable": Faults._cut_from_zookeeper,
    "expire session": Faults._expire_session,
    "cut": Faults._cut,
    "cut one way": Faults._cut_one_way,
    "fill disk": Faults._fill_disk,
    "wipe": Faults._wipe,
    "slow follower": Faults._slow_follower,
    "reassign": Faults._reassign,
    "delete topic": Faults._delete_topic,
}
