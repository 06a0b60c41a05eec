"""Several brokers on a thread of their own: `with kavka.testing.Cluster() as cluster:`."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Self, TypeVar

from kavka.testing.async_broker import NOTHING
from kavka.testing.async_cluster import WITHIN_S, AsyncCluster
from kavka.testing.client import READ_WITHIN_S, Record
from kavka.testing.lifetime import Closing
from kavka.testing.places import DataPath
from kavka.testing.thread import Lock, LoopThread

T = TypeVar("T")


class Cluster(Closing):
    """Brokers 1, 2, ... in this process, with their data in temporary directories.

        with kavka.testing.Cluster(brokers=3) as cluster:
            cluster.create_topic("t")
            cluster.kill(cluster.leader_of("t"))
            producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all")

    They replicate as on three machines, over sockets on 127.0.0.1; what ZooKeeper would keep is in
    memory. Settings are those of all brokers, as for `kavka.testing.Broker`; by default everything
    has three replicas, if there are three brokers. `first_port`: the first broker's, and the next
    ones for the others; by default any that are free. `racks`: the `broker.rack` of each, as in
    `("a", "a", "b")`. The end of a `with` block ends the brokers and removes their data.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        first_port: int = 0,
        racks: Sequence[str] = (),
        settings: Mapping[str, object] = NOTHING,
        **keywords: object,
    ) -> None:
        self._cluster = AsyncCluster(
            brokers, first_port=first_port, racks=racks, settings=settings, **keywords
        )
        self._thread: LoopThread | None = None
        self._lifecycle_lock = Lock()  # serializes start, stop, kill and close

    # -- the life of brokers --------------------------------------------------------------

    def start(self, broker_id: int | None = None) -> Self:
        """Start one broker, on its address and data, or all that do not run. It returns when they
        know each other."""
        with self._lifecycle_lock:
            if self._thread is None:
                self._thread = LoopThread("kavka-cluster")
                atexit.register(self._at_exit)
            self._thread.call(self._cluster.start(broker_id))
        return self

    def stop(self, broker_id: int | None = None) -> None:
        """Stop one broker cleanly: first others lead what it leads. Without an id, one after the
        other."""
        with self._lifecycle_lock:
            self._call(self._cluster.stop(broker_id))

    def kill(self, broker_id: int | None = None) -> None:
        """End one broker as SIGKILL does, or all at once. `start` recovers its files."""
        with self._lifecycle_lock:
            self._call(self._cluster.kill(broker_id))

    def close(self) -> None:
        """End all, and release ports and data. BrokerFailed if one had stopped after a fatal
        error."""
        with self._lifecycle_lock:
            thread, self._thread = self._thread, None
            if thread is None or not thread.is_alive:
                self._cluster.forget()
            else:
                try:
                    thread.call(self._cluster.close())
                finally:
                    thread.end()
        atexit.unregister(self._at_exit)

    def _at_exit(self) -> None:
        """The process exits without having closed the cluster."""
        self.close()

    # -- faults ---------------------------------------------------------------------------

    def partition(self, broker_id: int, from_: Sequence[int]) -> None:
        """Cut the network between one broker and others: their connections break, and new ones get
        no answer. Clients still reach all of them."""
        self._do(lambda: self._cluster.partition(broker_id, from_))

    def heal(self) -> None:
        """Undo all cuts of the network."""
        self._do(self._cluster.heal)

    # -- what it is like ------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """`host:port,host:port,...` for clients, of all brokers; they stay the same."""
        return self._cluster.bootstrap_servers

    @property
    def addresses(self) -> Mapping[int, str]:
        """`host:port` of each broker."""
        return {one: broker.bootstrap_servers for one, broker in self._cluster.brokers.items()}

    def data_dir(self, broker_id: int) -> DataPath:
        """The directory with the partitions' files of a broker."""
        return self._cluster.brokers[broker_id].data_dir

    @property
    def controller(self) -> int | None:
        """The broker that is the controller; None while there is none."""
        return self._do(lambda: self._cluster.controller)

    def leader_of(self, topic: str, partition: int = 0) -> int | None:
        """The broker that leads a partition; None while no running broker does. KeyError."""
        return self._do(lambda: self._cluster.leader_of(topic, partition))

    def is_running(self, broker_id: int) -> bool:
        """Whether a broker is started and has not stopped."""
        return self._cluster.brokers[broker_id].is_running

    def wait_until_in_sync(self, topic: str | None = None, *, within_s: float = WITHIN_S) -> None:
        """Wait until every replica of a topic, or of all, is in sync, and every partition has a
        leader. TimeoutError, which says what is not."""
        self._call(self._cluster.wait_until_in_sync(topic, within_s=within_s))

    # -- topics and records ---------------------------------------------------------------
    # Calls within the process, without a client. ApiError has Apache Kafka's error code.

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        *,
        replication_factor: int | None = None,
        configs: Mapping[str, object] = NOTHING,
    ) -> None:
        """Create a topic, with the brokers' defaults for what is not given. All brokers that run
        know it then."""
        self._call(
            self._cluster.create_topic(
                name, partitions, replication_factor=replication_factor, configs=configs
            )
        )

    def delete_topic(self, name: str) -> None:
        """Delete a topic; afterwards its name is free."""
        self._call(self._cluster.delete_topic(name))

    def topics(self) -> list[str]:
        """The names of all topics but Kafka's internal ones, sorted."""
        return self._call(self._cluster.topics())

    def produce(self, topic: str, value: bytes | None, *, partition: int = 0, **more: Any) -> int:
        """Write one record (`key`, `headers` and `timestamp_ms` as for a `Broker`), which all
        in-sync replicas have then. Returns its offset."""
        return self._call(self._cluster.produce(topic, value, partition=partition, **more))

    def read(
        self,
        topic: str,
        partition: int | None = None,
        *,
        at_least: int = 0,
        within_s: float = READ_WITHIN_S,
    ) -> list[Record]:
        """All records of a topic, or of one of its partitions, by partition and offset."""
        return self._call(
            self._cluster.read(topic, partition, at_least=at_least, within_s=within_s)
        )

    # -- within ---------------------------------------------------------------------------

    def _do(self, function: Callable[[], T]) -> T:
        async def do() -> T:
            return function()

        return self._call(do())

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._thread is None or not self._thread.is_alive:
            coroutine.close()
            raise RuntimeError("the cluster does not run: start() it first")
        return self._thread.call(coroutine)
