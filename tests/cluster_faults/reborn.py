"""A topic that is deleted and created again while it is written to."""

from __future__ import annotations

import time
from contextlib import closing

from kafka import KafkaAdminClient

from cluster_faults.cluster import WITHIN_S, FaultyCluster
from cluster_faults.readers import read_all
from cluster_faults.writers import KafkaPython, Producing
from sim.history import History
from sim.judge import judge
from support.clients.kafka_python import create_topic
from support.wait import eventually

TOPIC, PARTITIONS = "reborn", 2


class RebornTopic:
    """One topic in all its lives, each with a producer of its own.

    What was acknowledged in an earlier life is gone. What was not is perhaps still sent by its
    producer: it may be there, or not.
    """

    def __init__(self, cluster: FaultyCluster, rate: float) -> None:
        self.lives = 0
        began = time.monotonic()
        self._history = History(lambda: time.monotonic() - began)
        self._cluster = cluster
        self._rate = rate
        self._earlier: list[Producing] = []
        self._begin()

    @property
    def acknowledged(self) -> int:
        """How many records, in this life."""
        return self._producer.acknowledged

    def _begin(self) -> None:
        create_topic(self._cluster.bootstrap, TOPIC, PARTITIONS, replicas=3)
        self._producer = Producing(
            KafkaPython,
            self._cluster.bootstrap,
            TOPIC,
            PARTITIONS,
            self._history,
            rate=self._rate,
            name=f"life{self.lives}",
        )
        self._producer.start()

    def recreate(self) -> None:
        """Delete it; when no broker has anything of it any more, create it."""
        with closing(KafkaAdminClient(bootstrap_servers=self._cluster.bootstrap)) as admin:
            admin.delete_topics([TOPIC])
        self._producer.stop()
        self._earlier.append(self._producer)
        eventually(
            lambda: not self._cluster.directories(TOPIC),
            within_s=WITHIN_S,
            what="no broker has a directory of the deleted topic",
            detail=lambda: f"{self._cluster.directories(TOPIC)}\n{self._cluster.tail()}",
        )
        history = self._history
        for value in list(history.writes):
            if history.acknowledged.pop(value, None) is None:
                history.given_up.setdefault(value, "its topic was deleted")
            else:
                history.given_up.pop(value, None)
                del history.writes[value]
        self.lives += 1
        self._begin()

    def stop(self) -> None:
        """Write no more."""
        self._producer.stop()

    def finish(self) -> list[str]:
        """What is violated."""
        for producer in (*self._earlier, self._producer):
            producer.finish(WITHIN_S)
        places = [(TOPIC, index) for index in range(PARTITIONS)]
        final = read_all(self._cluster.bootstrap, places, name=f"last reader of {TOPIC}")
        return judge(self._history, final, {}, {}, [])
