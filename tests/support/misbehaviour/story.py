"""Producers write through the proxy in bad weather, and what there is to say of their log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

from support.broker import Kavka, StartBroker, broker_kind
from support.clients.client import Found
from support.clients.every import CONFLUENT
from support.clients.idempotent import Writer
from support.clients.kafka_python import create_topic, offsets
from support.misbehaviour.judge import numbered, of_batches, of_records, written
from support.misbehaviour.producers import Hearing
from support.misbehaviour.proxy import Proxy
from support.misbehaviour.weather import Fate, Weather
from support.ports import HOST, free_port
from support.wait import eventually

TOPIC = "misbehaviour"
PARTITIONS = 3
SETTLED_RECORDS = 50
"""Of each writer, that are acknowledged in good weather."""
WITHIN_S = 120.0
LONGER_S = 3.0
"""For each time that every fate is to strike."""


class Story:
    """One broker, one proxy, and a producer of each kind at any time."""

    def __init__(self, start_broker: StartBroker, kinds: Sequence[type[Writer]], seed: int) -> None:
        self.weather = Weather(seed)
        self.proxy = Proxy(self.weather)
        self.hearing = Hearing()
        self._start_broker = start_broker
        self._kinds = kinds
        self._writers: dict[type[Writer], Writer] = {}
        self._ended: list[Writer] = []

    def __enter__(self) -> Self:
        self.proxy.__enter__()
        settings = {"advertised.listeners": f"PLAINTEXT://{self.proxy.address}"}
        if broker_kind() is Kavka:  # it returns the port that it advertises, and no other
            self.proxy.broker_port = free_port()
            settings["listeners"] = f"PLAINTEXT://{HOST}:{self.proxy.broker_port}"
        self.broker = self._start_broker(**settings)
        self.proxy.broker_port = self.proxy.broker_port or self.broker.port
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers.values():
            writer.stop()
        self.proxy.__exit__()

    def play(self, times: int) -> None:
        """Write until each fate has struck so many times, and to the end of what is under way."""
        create_topic(self.proxy.address, TOPIC, PARTITIONS)
        for kind in self._kinds:
            self._begin(kind)
        self._await(self._all_write(SETTLED_RECORDS), "all write", WITHIN_S)
        self.weather.is_bad = True
        within_s = WITHIN_S + LONGER_S * times
        self._await(
            lambda: all(self.weather.fates[fate] >= times for fate in Fate), "all", within_s
        )
        self.weather.is_bad = False
        for writer in [*self._ended, *self._writers.values()]:
            writer.finish()

    def complaints(self) -> list[str]:
        """All that is to be said against the log."""
        _, ends = offsets(self.proxy.address, TOPIC, PARTITIONS)
        read = CONFLUENT.read(self.proxy.address, TOPIC, ends)
        found = [
            complaint
            for partition in range(PARTITIONS)
            for complaint in of_batches(
                partition, written(self.broker.data_dir / f"{TOPIC}-{partition}")
            )
        ]
        records = {
            at: [(record.offset, numbered(_value(record))) for record in read[at]] for at in read
        }
        return [*found, *of_records(records, self.hearing.outcomes), *self.proxy.failures]

    def summary(self) -> str:
        """What happened, in a line or two."""
        outcomes = self.hearing.outcomes
        fates = ", ".join(f"{self.weather.fates[fate]} {fate.value}" for fate in Fate)
        producers = len(self._ended) + len(self._writers)
        return (
            f"{len(outcomes.acknowledged)} acknowledged, {len(outcomes.given_up)} given up by"
            f" {producers} producers, {self.weather.in_flight_max} requests in flight at most;"
            f" requests: {fates}; errors {dict(self.weather.refusals)}"
        )

    def _begin(self, kind: type[Writer]) -> None:
        name = f"{kind.label}#{len(self._ended)}"
        writer = kind(self.proxy.address, TOPIC, PARTITIONS, self.hearing, name=name)
        self._writers[kind] = writer
        writer.start()

    def _replace_those_that_gave_up(self) -> None:
        for kind, writer in list(self._writers.items()):
            lives = writer.is_alive()  # asked first: what it gave up is noted before it ends
            if writer.name in self.hearing.given_up:
                writer.stop()
                self._ended.append(writer)
                self._begin(kind)
            else:
                assert lives, f"{writer.name} has ended: {self.hearing.failures}"

    def _all_write(self, count: int) -> Callable[[], bool]:
        counts = self.hearing.by_writer
        return lambda: all(
            counts[writer.name.encode()] >= count for writer in self._writers.values()
        )

    def _await(self, condition: Callable[[], bool], what: str, within_s: float) -> None:
        def holds() -> bool:
            self._replace_those_that_gave_up()
            return condition()

        eventually(holds, within_s=within_s, what=what, detail=self.summary)


def _value(found: Found) -> bytes:
    assert found.record.value is not None
    return found.record.value
