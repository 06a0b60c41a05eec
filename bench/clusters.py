"""The clusters that are measured: three brokers on a ZooKeeper, of Kavka or of Apache Kafka 3.9."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from bench import frames, procs, raw
from bench.helper import Helper
from bench.peers import DELETE_DELAY, SERVER_JVM, SHIPPED, compile_sources
from bench.run import Options, Readings, Results
from support import java, oracle39
from support.broker import PlainKavka
from support.kavka_cluster import MEMBERS, ProcessCluster
from support.process import BrokerProcess

BROKERS: Final = tuple(range(1, MEMBERS + 1))
"""Their ids."""

SETTINGS: Final[Mapping[str, str]] = dict([DELETE_DELAY])
ADMIN_TIMEOUT_S: Final = 60.0
RETRY_S: Final = 0.1
REPLICATED_WITHIN_S: Final = 60.0
REPLICATED_POLL_S: Final = 0.003


class Cluster(ProcessCluster):
    """Three brokers as their users run them."""

    name: ClassVar[str]

    def __init__(self, home: Path) -> None:
        super().__init__(home, SETTINGS)

    def alive(self) -> bool:
        """Whether all three run."""
        return all(
            member.process is not None and member.process.poll() is None for member in self.members
        )

    def close(self) -> None:
        for member in self.members:
            if member.process is not None and member.process.poll() is not None:
                member.process = None  # it has ended by itself, which has been reported
        super().close()


class Kavka(Cluster):
    """Of this tree."""

    name = "Kavka"

    def open(self) -> None:
        compile_sources()
        super().open()

    def new_member(self, home: Path, settings: Mapping[str, str]) -> BrokerProcess:
        return PlainKavka(home, settings)


class ShippedKafka39(oracle39.ApacheKafka39):
    """With the JVM flags and the settings that it ships with."""

    options = (*SERVER_JVM, f"-Dlog4j.configuration=file:{java.SERVER_LOGGING_39}")


class ApacheKafka39(Cluster):
    """In ZooKeeper mode."""

    name = "Apache Kafka 3.9"

    def new_member(self, home: Path, settings: Mapping[str, str]) -> BrokerProcess:
        return ShippedKafka39(home, {**SHIPPED, **settings}, self.zookeeper)


CLUSTERS: Final[Mapping[str, type[Cluster]]] = {"kavka": Kavka, "apache": ApacheKafka39}


class ClusterRun(Readings):
    """A cluster that is up, with what a stage needs to measure it."""

    def __init__(
        self, cluster: Cluster, kills: int, helper: Helper, options: Options, results: Results
    ) -> None:
        """`kills`: how many of each kind the stages of fail-over make."""
        super().__init__(helper, options, results)
        self.cluster = cluster
        self.kills = kills
        self.admin = AdminClient(settings(cluster.bootstrap))
        self._topics = 0

    @property
    def pids(self) -> Sequence[int]:
        return [member.process.pid for member in self.cluster.members if member.process is not None]

    @property
    def home(self) -> Path:
        return self.cluster.home

    def alive(self) -> bool:
        return self.cluster.alive()

    def output_tail(self) -> str:
        return self.cluster.tail()

    def rss_mb(self) -> float:
        """Resident memory of all brokers, MB."""
        return sum(procs.rss_mb(procs.tree(pid)) for pid in self.pids)

    def member(self, broker_id: int) -> BrokerProcess:
        """A broker by its id."""
        return self.cluster.members[broker_id - 1]

    def port(self, broker_id: int) -> int:
        """Where a broker listens."""
        return self.member(broker_id).port

    def name(self, stage: str) -> str:
        """A name for a topic, a group or a transactional id, that no other has."""
        self._topics += 1
        return f"{stage}-{self._topics}"

    @contextmanager
    def topic(self, stage: str, leaders: Sequence[int]) -> Iterator[str]:
        """A topic of its own with a partition for each of `leaders`, who is the first of its three
        replicas, and with one record in each, for the length of a `with` block."""
        name = self.name(stage)
        replicas = [
            [leader, *(broker_id for broker_id in BROKERS if broker_id != leader)]
            for leader in leaders
        ]
        self.ask(lambda: self.admin.create_topics([_new(name, replicas)]))
        for partition, leader in enumerate(leaders):
            raw.write_one(self.port(leader), name, partition)
        yield name
        self.ask(lambda: self.admin.delete_topics([name]))

    def metadata(self) -> Any:
        """What a broker says about the cluster."""
        try:
            return self.admin.list_topics(timeout=ADMIN_TIMEOUT_S)
        except KafkaException as failure:
            raise RuntimeError(f"no metadata: {failure}") from failure

    def ask(self, request: Callable[[], Mapping[str, Any]]) -> None:
        """Make an administrator's request, again while the client asks a broker that is not the
        controller any more; RuntimeError when it is refused."""
        deadline_s = time.monotonic() + ADMIN_TIMEOUT_S
        while True:
            try:
                for future in request().values():
                    future.result(ADMIN_TIMEOUT_S)
                return
            except KafkaException as failure:
                error = failure.args[0]
                if error.code() != KafkaError.NOT_CONTROLLER or time.monotonic() > deadline_s:
                    raise RuntimeError(f"an administrator's request: {failure}") from failure
            self.metadata()  # which tells the client, too
            time.sleep(RETRY_S)

    def await_replicated(self, topic: str, ends: Sequence[tuple[int, int]]) -> None:
        """Wait until every partition's records are on all replicas: `ends` has the leader and the
        end of each. Consumers may read up to there."""
        deadline_s = time.monotonic() + REPLICATED_WITHIN_S
        for partition, (leader, end) in enumerate(ends):
            request = frames.list_end_offset(topic, partition)
            with raw.Connection(self.port(leader)) as connection:
                while (found := frames.listed_offset(connection.ask(request))) < end:
                    if time.monotonic() > deadline_s:
                        raise RuntimeError(f"{topic}-{partition} is replicated to {found} of {end}")
                    time.sleep(REPLICATED_POLL_S)


def settings(bootstrap: str) -> dict[str, Any]:
    """What each confluent-kafka client of a cluster is given: where it is. All else is default."""
    return {"bootstrap.servers": bootstrap, "broker.address.family": "v4", "log_level": 0}


def _new(name: str, replicas: list[list[int]]) -> Any:
    return NewTopic(name, num_partitions=len(replicas), replica_assignment=replicas)
