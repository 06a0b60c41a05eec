"""Three brokers on a ZooKeeper, as processes, with a network between them that can be cut."""

from __future__ import annotations

import shutil
import signal
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Self

from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from cluster_faults.control import Control
from cluster_faults.disk import SmallDisk
from cluster_faults.network import Network, Session
from support.broker import Kavka
from support.groups.clients import BROKER_SETTINGS as GROUP_SETTINGS
from support.oracle39 import ZooKeeper
from support.ports import HOST
from support.process import running
from support.wait import eventually

BROKERS = 3
SESSION_S = 6.0
LAG_S = 5.0
WITHIN_S = 120.0
"""What may take long on a busy machine: nothing is said about speed here."""

SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        **GROUP_SETTINGS,
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        "auto.create.topics.enable": "false",
        "zookeeper.session.timeout.ms": str(int(SESSION_S * 1000)),
        "zookeeper.connection.timeout.ms": "60000",
        "replica.lag.time.max.ms": str(int(LAG_S * 1000)),
        "controller.socket.timeout.ms": "10000",
        "replica.socket.timeout.ms": "10000",
        "request.timeout.ms": "10000",
        "leader.imbalance.check.interval.seconds": "30",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,BROKER:PLAINTEXT",
        "inter.broker.listener.name": "BROKER",
        "log.cleaner.backoff.ms": "2000",
    }
)


class Member(Kavka):
    """One broker, with a listener for clients and one for brokers."""

    module: ClassVar[str] = "cluster_faults.broken"
    ready_within_s: ClassVar[float] = WITHIN_S

    def __init__(self, number: int, home: Path, network: Network, zookeeper_port: int) -> None:
        self.number = number
        self.name = str(number)
        """As it names itself to other brokers."""
        super().__init__(home)
        self.disk = SmallDisk(home / "disk")
        self.control = Control(str(home / "control"))
        self.synced = home / "synced"
        """What of its files is synced, as it notes itself."""
        of_clients, own = self.ports.take(), self.ports.take()
        self.port = network.to_clients(self.name, of_clients)
        between = network.to_broker(self.name, own)
        zookeeper = network.to_zookeeper(self.name, zookeeper_port)
        self.settings = {
            **SETTINGS,
            "broker.id": self.name,
            "zookeeper.connect": f"{HOST}:{zookeeper}",
            "listeners": f"CLIENT://{HOST}:{of_clients},BROKER://{HOST}:{own}",
            "advertised.listeners": f"CLIENT://{HOST}:{self.port},BROKER://{HOST}:{between}",
        }

    @property
    def data_dir(self) -> Path:
        return self.disk.data

    def prepare(self) -> None:
        """The ports are taken."""

    def command(self) -> list[str]:
        python, option, module, *rest = super().command()
        return [python, option, module, self.control.path, str(self.synced), *rest]

    def launch(self) -> None:
        """What it finds counts as synced."""
        self.synced.unlink(missing_ok=True)
        super().launch()

    def ready_port(self, output: str) -> int | None:
        return self.port if super().ready_port(output) and self._is_reached() else None

    def _is_reached(self) -> bool:
        """Whether clients get to it: the network notices after a moment that it listens."""
        try:
            socket.create_connection((HOST, self.port), timeout=WITHIN_S).close()
        except ConnectionError:
            return False
        return True

    def pause(self) -> None:
        """SIGSTOP: it does nothing more, and its session may end."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT: it goes on where it was."""
        self._running().send_signal(signal.SIGCONT)

    def has_ended(self) -> bool:
        """Whether it has ended by itself; it can be started again then."""
        if self.process is not None and self.process.poll() is not None:
            self.process = None
        return self.process is None

    def wipe(self) -> None:
        """Everything that it has stored is gone; it must not run."""
        for path in self.data_dir.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def directory_id(self) -> str:
        """Of its data directory."""
        text = (self.data_dir / "meta.properties").read_text()
        (line,) = [line for line in text.splitlines() if line.startswith("directory.id=")]
        return line.partition("=")[2]

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.disk.release()


class FaultyCluster:
    """All of it, from `with` on."""

    def __init__(self, home: Path, *, durable: bool) -> None:
        """`durable`: nothing is acknowledged that is not synced."""
        self._settings = {"kavka.durability": "fsync"} if durable else {}
        self.network = Network()
        self.zookeeper = ZooKeeper(home / "zookeeper")
        self.members: dict[int, Member] = {}
        self._home = home
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.network)
            stack.callback(self.zookeeper.close)
            self.zookeeper.start()
            for number in range(1, BROKERS + 1):
                home = self._home / f"broker-{number}"
                member = Member(number, home, self.network, self.zookeeper.port)
                member.settings |= self._settings
                self.members[number] = member
            stack.enter_context(running(self.members.values()))
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def bootstrap(self) -> str:
        """The addresses of all."""
        return ",".join(member.bootstrap for member in self.members.values())

    @property
    def controller(self) -> int:
        """Which broker is the controller."""
        return eventually(
            self._controller, within_s=WITHIN_S, what="there is a controller", detail=self.tail
        )

    def _controller(self) -> int | None:
        found: int = self._admin.list_topics(timeout=WITHIN_S).controller_id
        return found if found in self.members else None

    def leader(self, topic: str, partition: int) -> int:
        """Who leads a partition."""

        def leading() -> int | None:
            topics = self._admin.list_topics(timeout=WITHIN_S).topics
            if topic not in topics or partition not in topics[topic].partitions:
                return None
            found: int = topics[topic].partitions[partition].leader
            return found if found in self.members else None

        return eventually(
            leading,
            within_s=WITHIN_S,
            what=f"{topic}-{partition} has a leader",
            detail=self.tail,
        )

    def lagging(self) -> list[str]:
        """Partitions without all their replicas in sync."""
        metadata = self._admin.list_topics(timeout=WITHIN_S)
        found = [f"{len(metadata.brokers)} brokers"] if len(metadata.brokers) < BROKERS else []
        return found + [
            f"{topic}-{index}: leader {partition.leader}, "
            f"in sync {partition.isrs} of {partition.replicas}"
            for topic, described in metadata.topics.items()
            for index, partition in described.partitions.items()
            if len(partition.isrs) < len(partition.replicas) or partition.leader < 0
        ]

    def replicas(self, topic: str, partition: int) -> list[int]:
        """Where a partition's replicas are, in order."""
        found = self._admin.list_topics(timeout=WITHIN_S).topics[topic].partitions[partition]
        return list(found.replicas)

    def directories(self, topic: str) -> list[str]:
        """Of a topic, on any broker; those to be deleted soon don't count."""
        return [
            f"{member.name}: {path.name}"
            for member in self.members.values()
            for path in member.data_dir.glob(f"{topic}-*")
            if not path.name.endswith("-delete")
        ]

    def in_isr(self, number: int) -> list[str]:
        """Partitions with a broker in their ISR."""
        return [
            f"{topic}-{index}"
            for topic, described in self._admin.list_topics(timeout=WITHIN_S).topics.items()
            for index, partition in described.partitions.items()
            if number in partition.isrs
        ]

    def await_in_sync(self) -> None:
        """Wait until every partition has all its replicas in sync."""
        eventually(
            lambda: not self.lagging(),
            within_s=WITHIN_S,
            what="all replicas are in sync",
            detail=lambda: f"{self.lagging()}\n{self.tail()}",
        )

    def expire_session(self, number: int) -> None:
        """End a broker's session: another client takes it over, and closes it. Returns when the
        broker has another."""
        session = self.network.sessions[str(number)]

        def has_another() -> bool:
            if self.network.sessions[str(number)].session_id != session.session_id:
                return True
            self._end_session(session)  # once more, if the broker has taken it back meanwhile
            return False

        eventually(
            has_another,
            within_s=WITHIN_S,
            what=f"broker {number} has another session",
            detail=self.tail,
        )

    def _end_session(self, session: Session) -> None:
        thief = KazooClient(
            f"{HOST}:{self.zookeeper.port}",
            timeout=SESSION_S,
            client_id=(session.session_id, session.password),
        )
        thief.start(timeout=WITHIN_S)
        thief.stop()
        thief.close()

    def stop(self) -> None:
        """All brokers stop cleanly."""
        with ThreadPoolExecutor(BROKERS) as pool:
            list(pool.map(lambda member: member.stop(within_s=WITHIN_S), self.members.values()))

    def tail(self) -> str:
        """The last that each has printed."""
        return "\n".join(
            f"--- {member.home.name}\n{member.tail()}" for member in self.members.values()
        )

    def tracebacks(self) -> list[str]:
        """Errors that a broker did not expect, in any of its lives."""
        return [
            f"{path.parent.name}/{path.name}"
            for member in self.members.values()
            for path in sorted(member.home.glob("output-*.log"))
            if "Traceback (most recent call last)" in path.read_text(errors="replace")
        ]
