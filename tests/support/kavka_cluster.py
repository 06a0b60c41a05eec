"""Clusters of brokers as processes, on a real ZooKeeper. Tests treat one of Kavka's as one broker:
what they kill and start again is one of its members, each in turn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType

from support.broker import Kavka
from support.oracle39 import ZooKeeper
from support.ports import HOST
from support.process import BrokerProcess, running
from support.raw import RawConnection
from support.wait import eventually

MEMBERS = 3
IN_SYNC_WITHIN_S = 120.0
METADATA = 4
"""The version in which brokers are asked: brokers of any age here know it."""

SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
    }
)


class ProcessCluster(ABC):
    """Three brokers of one kind; broker 1 is the first member."""

    def __init__(self, home: Path, settings: Mapping[str, str]) -> None:
        """Further settings; those of `SETTINGS` are its own."""
        self.home = home
        self.zookeeper = ZooKeeper(home / "zookeeper")
        self._settings = {**settings, **SETTINGS}
        self.members: list[BrokerProcess] = []
        self._running = ExitStack()

    @abstractmethod
    def new_member(self, home: Path, settings: Mapping[str, str]) -> BrokerProcess:
        """A broker that has not been started; ZooKeeper runs."""

    def open(self) -> None:
        """Start ZooKeeper, and then the brokers; wait until all know each other."""
        self.zookeeper.start()
        self.members += [self._made(number) for number in range(1, MEMBERS + 1)]
        self._running.enter_context(running(tuple(self.members)))
        self.await_in_sync()

    def add(self) -> BrokerProcess:
        """Another broker, started, which all others know."""
        added = self._made(len(self.members) + 1)
        self._running.enter_context(running([added]))
        self.members.append(added)
        self.await_in_sync()
        return added

    def remove(self, member: BrokerProcess) -> None:
        """Stop one for good."""
        member.stop()
        self.members.remove(member)

    def close(self) -> None:
        """End all of it."""
        try:
            self._running.close()
        finally:
            self.zookeeper.close()

    def _made(self, number: int) -> BrokerProcess:
        own = {
            "broker.id": str(number),
            "zookeeper.connect": f"127.0.0.1:{self.zookeeper.port}",
            "zookeeper.connection.timeout.ms": "60000",
        }
        return self.new_member(self.home / f"broker-{number}", {**self._settings, **own})

    @property
    def bootstrap(self) -> str:
        """The addresses of all."""
        return ",".join(member.bootstrap for member in self.members)

    def await_in_sync(self, within_s: float = IN_SYNC_WITHIN_S) -> None:
        """Wait until every partition has all its replicas in sync."""
        await_in_sync(self.bootstrap, self.tail, within_s)

    def tail(self) -> str:
        """The last that each has printed."""
        return "\n".join(f"--- {member.home.name}\n{member.tail()}" for member in self.members)


class KavkaCluster(ProcessCluster):
    """Three of Kavka's. Of `BrokerProcess` it has what scenarios use."""

    replicas = MEMBERS

    def __init__(self, home: Path, settings: Mapping[str, str]) -> None:
        super().__init__(home, settings)
        self._turn = 0

    def new_member(self, home: Path, settings: Mapping[str, str]) -> BrokerProcess:
        return Kavka(home, settings)

    @property
    def _member(self) -> BrokerProcess:
        return self.members[self._turn % MEMBERS]

    @property
    def ready_after_s(self) -> float:
        """How long the last start of the one whose turn it is took."""
        return self._member.ready_after_s

    def kill(self) -> None:
        """SIGKILL for the one whose turn it is."""
        self._member.kill()

    def launch(self) -> None:
        """Start it, and don't wait."""
        self._member.launch()

    def start(self) -> None:
        """Start it, wait until all replicas are in sync, and pass the turn on."""
        self._member.start()
        self._turn += 1
        self.await_in_sync()

    def check(self) -> None:
        """No broker has met an error that it did not expect."""
        for member in self.members:
            assert "Traceback (most recent call last)" not in member.output(), member.tail()


@contextmanager
def serving(home: Path, settings: Mapping[str, str]) -> Iterator[KavkaCluster]:
    """One that serves a test, and must have met no error that it did not expect."""
    cluster = KavkaCluster(home, settings)
    try:
        cluster.open()
        yield cluster
        cluster.check()
    finally:
        print(cluster.tail())
        cluster.close()


def await_in_sync(
    bootstrap: str, tail: Callable[[], str], within_s: float = IN_SYNC_WITHIN_S
) -> None:
    """Wait until each broker knows that all have registered, and that every partition has a leader
    and all its replicas in sync. `bootstrap`: all addresses. `tail`: what the brokers have printed,
    for a failure."""
    addresses = bootstrap.split(",")

    def lagging() -> list[str]:
        return [
            f"{address} says that {complaint}"
            for address in addresses
            for complaint in _lagging(int(address.rpartition(":")[2]), len(addresses))
        ]

    eventually(
        lambda: not lagging(),
        within_s=within_s,
        what="all replicas are in sync",
        detail=lambda: f"{lagging()}\n{tail()}",
    )


def _lagging(port: int, brokers: int) -> list[str]:
    """What is not well yet, as far as one broker knows: it hears of a change some time after it."""
    with RawConnection(HOST, port) as connection:
        known = connection.request(
            "Metadata", METADATA, topics=None, allow_auto_topic_creation=False
        )
    if len(known["brokers"]) < brokers:  # one that has just started knows nothing yet
        return [f"{len(known['brokers'])} brokers are registered"]
    return [
        f"{topic['name']}-{partition['partition_index']} is led by {partition['leader_id']},"
        f" {partition['isr_nodes']} are in sync"
        for topic in known["topics"]
        for partition in topic["partitions"]
        if len(partition["isr_nodes"]) < len(partition["replica_nodes"])
        or partition["leader_id"] < 0
    ]
