"""How each kind of fault strikes, and how it ends. When it has ended all is well again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Protocol

from kafka import KafkaAdminClient, TopicPartition

from cluster_faults import damage, power
from cluster_faults.cluster import SESSION_S, WITHIN_S, FaultyCluster, Member
from cluster_faults.consumers import CLASSIC_GROUP
from cluster_faults.control import READS, SYNCS, WRITES
from cluster_faults.impostors import never_syncs, stale_producer
from cluster_faults.money import PARTITIONS as PARTITIONS_OF_MONEY
from cluster_faults.network import CLIENTS, ZOOKEEPER, Way
from cluster_faults.schedule import CONTROLLER, COORDINATOR, FOLLOWER, Fault
from support.wait import eventually

DELAY_S = 0.2
TEAR_EVERY_S = 0.5
SLOW_SYNC_MS = 700
STUCK_SYNC_MS = 3_600_000
SKEW_MS_MAX = 3_500_000
"""Less than an hour, by which clients' clocks may be ahead (message.timestamp.after.max.ms)."""

STROBE_S = 0.3
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
        self.violations: list[str] = []
        """What brokers should have refused, and have not."""
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
        self._start_all()

    def _start_all(self) -> None:
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

    def _ways_of_clients(self, fault: Fault) -> list[Way]:
        """From one half of the clients, or from both, to the victim."""
        victim = self._victim(fault).name
        halves = fault.chance.choice([CLIENTS, *((half,) for half in CLIENTS)])
        return [(half, victim) for half in halves]

    def _cut_clients(self, fault: Fault) -> None:
        ways = self._ways_of_clients(fault)
        self._cut_ways(fault, *ways, *_back(ways))

    def _cut_clients_one_way(self, fault: Fault) -> None:
        """Their requests wait, or the responses."""
        ways = self._ways_of_clients(fault)
        self._cut_ways(fault, *fault.chance.choice([ways, _back(ways)]))

    def _slow_clients(self, fault: Fault) -> None:
        ways = self._ways_of_clients(fault)
        self._cluster.network.slow(DELAY_S, *ways, *_back(ways))
        self._last(fault)
        self._cluster.network.heal()

    def _tear_clients(self, fault: Fault) -> None:
        """Connections end in the middle of a request, or of a response."""
        ways = self._ways_of_clients(fault)
        torn = fault.chance.choice([ways, _back(ways)])
        until = time.monotonic() + fault.lasts * SESSION_S
        while time.monotonic() < until:
            self._cluster.network.tear(*torn)
            time.sleep(TEAR_EVERY_S)

    def _half_open_clients(self, fault: Fault) -> None:
        """They wait on connections that the broker has no more."""
        self._cluster.network.half_open(*self._ways_of_clients(fault))
        self._last(fault)
        self._cluster.network.heal(late=fault.late)

    def _stray_requests(self, fault: Fault) -> None:
        """They arrive late on another connection, or twice."""
        network = self._cluster.network
        before = network.strays
        network.stray(fault.chance, *self._ways_of_clients(fault))
        self._last(fault)
        network.heal()
        eventually(
            lambda: not network.has_strays,
            within_s=WITHIN_S,
            what="what was late has arrived",
        )
        print(f"{network.strays - before} requests were late, or came again")

    def _stale_producer(self, fault: Fault) -> None:
        protocol = fault.chance.choice([1, 2])
        partition = fault.partition % PARTITIONS_OF_MONEY
        self.violations += stale_producer(self._cluster, partition, protocol)

    def _never_syncs(self, fault: Fault) -> None:
        member = never_syncs(self._cluster, CLASSIC_GROUP, self._topic)
        print(f"{member} has joined {CLASSIC_GROUP}")

    def _fill_disk(self, fault: Fault) -> None:
        """A broker without a disk that works says so, and stops."""
        victim = self._victim(fault)
        if not victim.disk.is_small:
            self.skipped.append(f"{fault}: mounting is not permitted")
            return
        victim.disk.fill()
        _await_end(victim, "No space left on device")
        victim.disk.empty()
        victim.start()

    def _disk_error(self, fault: Fault) -> None:
        """EIO, until the broker has noticed: then it says so, and stops."""
        victim = self._victim(fault)
        victim.control.failing = fault.chance.choice([WRITES, READS, SYNCS])
        _await_end(victim, "Input/output error")
        victim.control.heal()
        victim.start()

    def _slow_disk(self, fault: Fault) -> None:
        """An fsync takes long, or does not come back at all."""
        victim = self._victim(fault)
        victim.control.sync_ms = fault.chance.choice([SLOW_SYNC_MS, STUCK_SYNC_MS])
        self._last(fault)
        victim.control.heal()

    def _clock(self, fault: Fault) -> None:
        """It jumps: once, or all the while."""
        victim = self._victim(fault)
        chance = fault.chance
        strobes = chance.random() < 0.5
        until = time.monotonic() + fault.lasts * SESSION_S
        victim.control.skew_ms = chance.randint(-SKEW_MS_MAX, SKEW_MS_MAX)
        while time.monotonic() < until:
            time.sleep(STROBE_S)
            if strobes:
                victim.control.skew_ms = chance.randint(-SKEW_MS_MAX, SKEW_MS_MAX)
        victim.control.heal()

    def _damage(self, fault: Fault) -> None:
        """Files of a broker that was killed are damaged."""
        victim = self._victim(fault)
        victim.kill()
        synced = power.synced_bytes(victim.synced)
        done = damage.damage(victim.data_dir, synced, fault.chance)
        print(f"damage on {victim.name}: {', '.join(done)}")
        victim.start()

    def _cut_power(self, fault: Fault) -> None:
        victim = self._victim(fault)
        victim.kill()
        lost = power.cut(victim.data_dir, victim.synced, fault.chance)
        print(f"{victim.name} has lost {lost} bytes")
        victim.start()

    def _cut_power_of_all(self, fault: Fault) -> None:
        members = self._cluster.members.values()
        for member in members:
            member.kill()
        for member in members:
            lost = power.cut(member.data_dir, member.synced, fault.chance)
            print(f"{member.name} has lost {lost} bytes")
        self._start_all()

    def _wipe(self, fault: Fault) -> None:
        """A broker does not take a disk that is empty for its own, unless a setting says so.
        Until then it has left every ISR."""
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
        others = [member.name for member in self._cluster.members.values() if member is not victim]
        ways = [(victim.name, other) for other in others]
        self._cluster.network.slow(DELAY_S, *ways, *_back(ways))
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


def _await_end(victim: Member, said: str) -> None:
    """A broker without a disk that works says so, and stops."""
    eventually(
        victim.has_ended,
        within_s=WITHIN_S,
        what=f"broker {victim.name} stops: {said}",
        detail=victim.tail,
    )
    assert said in victim.output(), victim.tail()


def _back(ways: Sequence[Way]) -> list[Way]:
    """The other direction."""
    return [(target, source) for source, target in ways]


KINDS: Mapping[str, Callable[[Faults, Fault], None]] = {
    "kill": Faults._kill,
    "pause": Faults._pause,
    "kill all": Faults._kill_all,
    "kill zookeeper": Faults._kill_zookeeper,
    "zookeeper unreachable": Faults._cut_from_zookeeper,
    "expire session": Faults._expire_session,
    "cut": Faults._cut,
    "cut one way": Faults._cut_one_way,
    "cut clients": Faults._cut_clients,
    "cut clients one way": Faults._cut_clients_one_way,
    "slow clients": Faults._slow_clients,
    "tear clients": Faults._tear_clients,
    "half-open clients": Faults._half_open_clients,
    "stray requests": Faults._stray_requests,
    "stale producer": Faults._stale_producer,
    "member that never syncs": Faults._never_syncs,
    "fill disk": Faults._fill_disk,
    "disk error": Faults._disk_error,
    "slow disk": Faults._slow_disk,
    "damage": Faults._damage,
    "cut power": Faults._cut_power,
    "cut power of all": Faults._cut_power_of_all,
    "clock": Faults._clock,
    "wipe": Faults._wipe,
    "slow follower": Faults._slow_follower,
    "reassign": Faults._reassign,
    "delete topic": Faults._delete_topic,
}
