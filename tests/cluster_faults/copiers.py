"""Who consumes, transforms and produces in transactions, all the while; each eighth is aborted."""

from __future__ import annotations

import threading
from itertools import count
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from cluster_faults.cluster import WITHIN_S, FaultyCluster
from support.clients.kafka_python import create_topic
from support.transactions import judge, readers
from support.transactions.clients import FRANZ_GO
from support.transactions.instances import GROUP, SOURCE, TARGET, Instance, Story
from support.transactions.judge import input_value
from support.transactions.programs.reporting import HANGS
from support.wait import eventually

CLIENT = FRANZ_GO
PARTITIONS = 2
COPIERS = 2
SHARE = 0.3
"""Of the rate of other producers, as records are written twice, with transactions around them."""

BURST_S = 0.1
GIVE_UP_MS = 600_000
"""Longer than a run waits for anything: the input has no gaps."""

SUPERVISED_S = 0.2


class Feeder(threading.Thread):
    """Writes the input of copiers."""

    def __init__(self, bootstrap: str, rate: float) -> None:
        super().__init__(name="feeder", daemon=True)
        self.failures: list[str] = []
        self.counts = dict.fromkeys(range(PARTITIONS), 0)
        """How many records of each partition are acknowledged."""
        self._burst = max(1, round(rate * BURST_S / PARTITIONS))
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": GIVE_UP_MS,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        numbers = count()
        while not self._stopping.wait(BURST_S):
            for _ in range(self._burst):
                number = next(numbers)
                for at in range(PARTITIONS):
                    value = input_value(at, number)
                    self._producer.produce(SOURCE, value, partition=at, on_delivery=self._delivered)
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.counts[message.partition()] += 1
        else:
            self.failures.append(f"{message.value()!r}: {error}")

    def finish(self) -> None:
        """Returns when all is acknowledged."""
        self._stopping.set()
        self.join(WITHIN_S)
        assert self._producer.flush(WITHIN_S) == 0, "the input is not written"


class Copiers:
    """Two of them, their input, and who reads what they commit."""

    def __init__(self, cluster: FaultyCluster, home: Path, rate: float) -> None:
        self.story = Story()
        self.ended: list[str] = []
        """Those that ended by themselves, and why."""
        self._bootstrap = cluster.bootstrap
        self._home = home
        self._numbers = count()
        for topic in (SOURCE, TARGET):
            create_topic(self._bootstrap, topic, PARTITIONS, replicas=3)
        self._feeder = Feeder(self._bootstrap, rate * SHARE)
        self._reader = readers.LiveReader(self._bootstrap, TARGET, PARTITIONS)
        self._instances = [self._start(f"{GROUP}-{number}") for number in range(COPIERS)]
        self._stopping = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, daemon=True)
        for thread in (self._feeder, self._reader, self._supervisor):
            thread.start()

    @property
    def copied(self) -> int:
        """How many records are in the output, for who reads what is committed."""
        return self._reader.count

    def _start(self, transactional_id: str) -> Instance:
        name = f"i{next(self._numbers)}"
        return Instance(CLIENT, self._bootstrap, transactional_id, name, self.story, self._home)

    def _supervise(self) -> None:
        """One that gave up is started again."""
        while not self._stopping.wait(SUPERVISED_S):
            for slot, instance in enumerate(self._instances):
                if not instance.runs:
                    instance.close()
                    end = instance.end()
                    self.ended.append(
                        f"{instance.name} {end.what}: {end.why}" if end else instance.errors()
                    )
                    self._instances[slot] = self._start(instance.transactional_id)

    def close(self) -> None:
        """End all in any way."""
        self._stopping.set()
        self._supervisor.join(WITHIN_S)
        for instance in self._instances:
            instance.close()

    def finish(self) -> list[str]:
        """All of the input is copied; what is violated."""
        self._feeder.finish()
        counts = self._feeder.counts
        eventually(
            lambda: self.copied >= sum(counts.values()),
            within_s=WITHIN_S,
            what="all is copied",
            detail=lambda: f"{self.copied} of {counts}\n{self.ended}\n{self.story.tail()}",
        )
        self._stopping.set()
        self._supervisor.join(WITHIN_S)
        for instance in self._instances:
            instance.finish()
        readers.await_stable(self._bootstrap, TARGET, PARTITIONS, WITHIN_S)
        self._reader.finish()
        reports = self.story.reports()
        visible = readers.read_all(self._bootstrap, TARGET, PARTITIONS, "read_committed")
        everything = readers.read_all(self._bootstrap, TARGET, PARTITIONS, "read_uncommitted")
        found = judge.disorder(visible, counts)
        found += judge.broken_promises(visible, reports)
        found += judge.not_for_all(visible, everything)
        found += judge.differing(visible, self._reader.got, "read in the end, and live")
        found += [
            f"{report.instance} {report.why}" for report in reports if report.why.startswith(HANGS)
        ]
        return [*(f"I9 {violation}" for violation in found), *self._feeder.failures]
