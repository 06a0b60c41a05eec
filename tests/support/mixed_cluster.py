"""A cluster whose brokers are Apache Kafka 3.9 or Kavka, each on its data directory: a member that
stops can go on as the other kind, so that a cluster rolls over from one to the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support.broker import Kavka
from support.kavka_cluster import SETTINGS, await_in_sync
from support.oracle39 import ApacheKafka39, ZooKeeper
from support.ports import HOST, Ports
from support.process import BrokerProcess

KAVKA, APACHE_KAFKA = "kavka", "apache-kafka"
OF_KAVKA = {"kavka.transaction.version": "0"}
"""Newer transactions need brokers that all know them."""

OTHER = {KAVKA: APACHE_KAFKA, APACHE_KAFKA: KAVKA}
STOPPED_WITHIN_S = 120.0


class _OnePort(Ports):
    """The port of a member, whichever broker listens there."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port

    def take(self) -> int:
        return self._port


class Member:
    """A broker id, with its port and directory."""

    def __init__(self, broker_id: int, port: int, home: Path) -> None:
        self.broker_id = broker_id
        self.kind = ""
        self.data_dir = home / f"data-{broker_id}"
        self._port = port
        self._home = home
        self._starts = 0
        self._process: BrokerProcess | None = None

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self._port}"

    @property
    def process(self) -> BrokerProcess:
        """The one that runs, or ran last."""
        assert self._process is not None
        return self._process

    def start(self, kind: str, settings: Mapping[str, str], zookeeper: ZooKeeper) -> None:
        """Start a broker of a kind, on what the last one has left."""
        self._starts += 1
        self.kind = kind
        home = self._home / f"broker-{self.broker_id}-{self._starts}-{kind}"
        own = {
            **settings,
            "broker.id": str(self.broker_id),
            "log.dirs": str(self.data_dir),
            "zookeeper.connect": f"{HOST}:{zookeeper.port}",
            "zookeeper.connection.timeout.ms": "60000",
        }
        if kind == KAVKA:
            self._process = Kavka(home, {**own, **OF_KAVKA})
        else:
            self._process = ApacheKafka39(home, own, zookeeper)
        self._process.ports = _OnePort(self._port)
        self._process.start()

    def stop(self) -> None:
        """A clean stop."""
        self.process.stop(within_s=STOPPED_WITHIN_S)

    def close(self) -> None:
        """End it in any way."""
        if self._process is not None:
            self._process.close()


class MixedCluster:
    """Members that take turns. Of `BrokerProcess` it has what scenarios use."""

    def __init__(self, home: Path, settings: Mapping[str, str]) -> None:
        """Further settings of all brokers, of either kind."""
        self._zookeeper = ZooKeeper(home / "zookeeper")
        self._home = home
        self._settings = {**settings, **SETTINGS}
        self._ports = Ports()
        self.members: list[Member] = []
        self._turn = 0
        self.ready_after_s = 0.0

    @property
    def replicas(self) -> int:
        return len(self.members)

    def open(self, kinds: Sequence[str]) -> None:
        """Start ZooKeeper, and then the brokers, all at once; wait until all know each other."""
        self._zookeeper.start()
        self.members = [
            Member(number, self._ports.take(), self._home) for number, _ in enumerate(kinds, 1)
        ]
        with ThreadPoolExecutor(len(kinds)) as pool:
            list(pool.map(self._start, self.members, kinds))
        await_in_sync(self.bootstrap, self.tail)

    def close(self) -> None:
        """End all of it."""
        for member in self.members:
            member.close()
        self._zookeeper.close()
        self._ports.release()

    def stop(self) -> None:
        """Stop all brokers, one after the other."""
        for member in self.members:
            member.stop()

    @property
    def bootstrap(self) -> str:
        """The addresses of all."""
        return ",".join(member.bootstrap for member in self.members)

    @property
    def kinds(self) -> list[str]:
        """What the members are now."""
        return [member.kind for member in self.members]

    def stored(self, member: Member, topic: str, index: int) -> bytes:
        """All batches of a replica."""
        files = (member.data_dir / f"{topic}-{index}").glob("*.log")
        return b"".join(path.read_bytes() for path in sorted(files))

    def kill(self) -> None:
        """Stop the member whose turn it is, in order: a cluster is rolled so."""
        self.members[self._turn].stop()

    def start(self) -> None:
        """Start it again, as the other kind; wait until all is in sync, and pass the turn on."""
        member = self.members[self._turn]
        self._start(member, OTHER[member.kind])
        self._turn = (self._turn + 1) % len(self.members)
        await_in_sync(self.bootstrap, self.tail)

    def tail(self) -> str:
        """The last that each has printed."""
        return "\n".join(
            f"--- {member.process.home.name}\n{member.process.tail()}" for member in self.members
        )

    def _start(self, member: Member, kind: str) -> None:
        member.start(kind, self._settings, self._zookeeper)
        self.ready_after_s = member.process.ready_after_s
