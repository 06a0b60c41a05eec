"""What the cluster serves while it is struck, and what all clients saw."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Self

from cluster_faults.cluster import WITHIN_S, FaultyCluster
from cluster_faults.compaction import lost_last_values
from cluster_faults.consumers import Consumers
from cluster_faults.copiers import Copiers
from cluster_faults.readers import LiveReader, read_all
from cluster_faults.reborn import TOPIC as REBORN
from cluster_faults.reborn import RebornTopic
from cluster_faults.transfers import MONEY, Transfers
from cluster_faults.watermarks import Prober, Watermarks
from cluster_faults.writers import KEYS, KINDS, Confluent, Paced, Producing
from sim.history import History, Place
from sim.judge import judge
from support.clients.kafka_python import create_topic
from support.transactions.instances import SOURCE, TARGET
from support.wait import eventually

PLAIN, PARTITIONS = "plain", 4
"""The topic that idempotent producers of all kinds write to."""

COMPACTED = "compacted"
OFTEN_COMPACTED: Mapping[str, str] = MappingProxyType(
    {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.ms": "5000",
        "max.compaction.lag.ms": "5000",
    }
)
WITH_COMPACTION = frozenset({COMPACTED, "__consumer_offsets", "__transaction_state"})
PROGRESS_RECORDS = 20
"""So many more must be acknowledged, of each producer, once all is well again."""


class Workload:
    """All clients, from `with` on."""

    def __init__(self, cluster: FaultyCluster, home: Path, rate: float) -> None:
        """`rate`: records a second of each producer."""
        began = time.monotonic()
        self.history = History(lambda: time.monotonic() - began)
        self.producers: list[Producing] = []
        self._cluster = cluster
        self._home = home
        self._rate = rate
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        bootstrap = self._cluster.bootstrap
        create_topic(bootstrap, PLAIN, PARTITIONS, replicas=3)
        create_topic(bootstrap, COMPACTED, 1, OFTEN_COMPACTED, replicas=3)
        with ExitStack() as stack:
            self.reborn = RebornTopic(self._cluster, self._rate)
            stack.callback(self.reborn.stop)
            for kind in KINDS:
                self._produce(kind, PLAIN, PARTITIONS)
            self._produce(Confluent, COMPACTED, 1, keys=KEYS)
            self.consumers = Consumers(bootstrap, PLAIN, self._home)
            stack.callback(self.consumers.close)
            self.copiers = Copiers(self._cluster, self._home, self._rate)
            stack.callback(self.copiers.close)
            self.transfers = Transfers(self._cluster, self._rate)
            stack.callback(self.transfers.close)
            self.reader = LiveReader(
                bootstrap, self.plain, self.history, name="live reader", dense=True
            )
            self.reader.start()
            self.watermarks = Watermarks(self.history)
            for member in self._cluster.members.values():
                prober = Prober(member.port, (PLAIN, SOURCE, TARGET, MONEY), self.watermarks)
                prober.start()
                stack.callback(prober.stop)
            stack.callback(self.reader.finish)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        for producer in self.producers:
            producer.stop()
        self._stack.close()

    @property
    def plain(self) -> list[Place]:
        """The partitions in which every offset has a record."""
        return [(PLAIN, index) for index in range(PARTITIONS)]

    def _produce(self, kind: type[Paced], topic: str, partitions: int, *, keys: int = 0) -> None:
        producer = Producing(
            kind,
            self._cluster.bootstrap,
            topic,
            partitions,
            self.history,
            rate=self._rate,
            name=f"{kind.label}-{topic}",
            keys=keys,
        )
        producer.start()
        self.producers.append(producer)

    def await_progress(self) -> None:
        """Wait until every client gets on."""
        before = self.counts()
        eventually(
            lambda: all(
                count >= before[name] + PROGRESS_RECORDS for name, count in self.counts().items()
            ),
            within_s=WITHIN_S,
            what="all clients get on",
            detail=lambda: f"{self.progress()}\n{self._cluster.tail()}",
        )

    def counts(self) -> dict[str, int]:
        """How many records each client has written, read or copied."""
        return {
            **{producer.name: producer.acknowledged for producer in self.producers},
            REBORN: self.reborn.acknowledged,
            self.reader.name: self.reader.records,
            **self.consumers.read(),
            "copied": self.copiers.copied,
            **self.transfers.counts(),
            "watermarks": self.watermarks.said,
        }

    def progress(self) -> str:
        """How far each is, and who has been replaced."""
        replaced = {
            producer.name: producer.successors for producer in self.producers if producer.successors
        }
        if self.copiers.ended:
            replaced["copiers"] = len(self.copiers.ended)
        if self.transfers.ended:
            replaced["transfers"] = len(self.transfers.ended)
        return f"{self.counts()}; replaced {replaced}"

    def given_up(self) -> list[str]:
        """What the clients said when they gave up."""
        records = [f"{value!r}: {why}" for value, why in self.history.given_up.items()]
        return [*self.transfers.ended, *self.copiers.ended, *records]

    def finish(self) -> Sequence[str]:
        """Everything ends; what is violated."""
        for producer in self.producers:
            producer.finish(WITHIN_S)
        bootstrap = self._cluster.bootstrap
        final = read_all(bootstrap, self.plain, name="last reader")
        self.history.readings += final.values()
        eventually(
            lambda: all(
                self.reader.readings[place].position == reading.position
                for place, reading in final.items()
            ),
            within_s=WITHIN_S,
            what="the live reader is at the end",
        )
        self.reader.finish()
        ends = {place: reading.position for place, reading in final.items()}
        compacted = read_all(bootstrap, [(COMPACTED, 0)], name="last reader of compacted")
        (left,) = compacted.values()
        print(f"compacted: {len(left.records)} records are left of {left.position}")
        return [
            *lost_last_values(self.history, left),
            *judge(self.history, final, {}, {}, []),
            *self.reborn.finish(),
            *self.copiers.finish(),
            *self.transfers.finish(),
            *self.consumers.finish(ends),  # nobody commits any more: the commits have an end
        ]
