"""Three instances transform an input while they and the broker are killed at random.

A consumer reads the committed output all the while. In the end that must be the input, transformed:
each record once, in order. Some instances are not killed but superseded, by another with the same
transactional id: those must be fenced.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

from support.clients.kafka_python import create_topic
from support.groups.clients import BROKER_SETTINGS as GROUP_SETTINGS
from support.groups.traffic import OFFSETS_TOPIC, committed
from support.process import BrokerProcess
from support.transactions import judge, readers
from support.transactions.clients import TransactionClient
from support.transactions.instances import GROUP, SOURCE, TARGET, Instance, Story
from support.transactions.programs.reporting import HANGS
from support.wait import eventually, random_moment

PARTITIONS = 6
SLOTS = 3
WITHIN_S = 240.0
STABLE_WITHIN_S = 60.0
SECOND_KILL = 0.2
"""Share of the broker's restarts that are killed as well, at any point of the start."""
MOMENT_S = 0.2
"""Up to so long after the output has come to some count a process is killed."""
EARLIEST, LATEST = 0.02, 0.95
"""Where in the output that may be."""


class Plan(NamedTuple):
    """What happens in a run."""

    records: int
    broker_kills: int
    instance_kills: int
    superseded: int
    second_kill: float = SECOND_KILL


class Scenario:
    """One run against one broker."""

    def __init__(
        self, broker: BrokerProcess, client: TransactionClient, home: Path, chance: random.Random
    ) -> None:
        self.broker = broker
        self.client = client
        self.home = home
        self.chance = chance
        self.story = Story()
        self.slots: list[Instance] = []
        self.superseded: list[Instance] = []
        self.ended: list[str] = []
        """Instances that ended by themselves, and why."""
        self.kills = 0
        self._numbers = iter(range(1000))
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def begin(self, records: int) -> None:
        """Write the input; the reader and all instances start."""
        self.counts = {at: len(range(at, records, PARTITIONS)) for at in range(PARTITIONS)}
        bootstrap = self.broker.bootstrap
        for topic in (SOURCE, TARGET):
            create_topic(bootstrap, topic, PARTITIONS, replicas=self.broker.replicas)
        readers.fill(bootstrap, SOURCE, self.counts)
        self.reader = readers.LiveReader(bootstrap, TARGET, PARTITIONS)
        self.reader.start()
        self._stack.callback(self.reader.finish)
        self.slots = [self._start(f"{GROUP}-{number}") for number in range(SLOTS)]

    def await_count(self, count: int) -> None:
        """Wait until so many records are in the output."""

        def come() -> bool:
            self._replace_ended()
            return self.reader.count >= count

        eventually(
            come,
            within_s=WITHIN_S,
            what=f"{count} records are in the output",
            detail=lambda: f"there are {self.reader.count}\n{self.tail()}",
        )

    def kill_broker(self, second: float = SECOND_KILL) -> None:
        """SIGKILL for the broker, and a new start; now and then, `second`, it doesn't get far."""
        self.broker.kill()
        self.kills += 1
        while self.chance.random() < second:
            self.broker.launch()
            random_moment(self.chance, self.broker.ready_after_s)
            self.broker.kill()
            self.kills += 1
        self.broker.start()

    def kill_instance(self) -> None:
        """SIGKILL for an instance; another begins with its transactional id."""
        self._replace_ended()
        slot = self.chance.randrange(SLOTS)
        self.slots[slot].close()  # it may have ended by itself just now
        self.slots[slot] = self._start(self.slots[slot].transactional_id)

    def supersede(self) -> None:
        """Another instance begins with the transactional id of one that lives, and has begun."""
        slot = self.chance.randrange(SLOTS)

        def has_begun() -> bool:
            self._replace_ended()
            return bool(self.slots[slot].reported("ready"))

        eventually(has_begun, within_s=WITHIN_S, what="an instance begins", detail=self.tail)
        self.superseded.append(self.slots[slot])
        self.slots[slot] = self._start(self.slots[slot].transactional_id)

    def finish(self) -> None:
        """All instances end politely, and nothing is open any more."""
        for instance in (*self.slots, *self.superseded):
            self._finish(instance)
        bootstrap = self.broker.bootstrap
        self.ends = readers.await_stable(bootstrap, TARGET, PARTITIONS, STABLE_WITHIN_S)
        offsets_partitions = int(GROUP_SETTINGS["offsets.topic.num.partitions"])
        readers.await_stable(bootstrap, OFFSETS_TOPIC, offsets_partitions, STABLE_WITHIN_S)
        self.reader.finish()

    def complaints(self) -> list[str]:
        """What is to be said against it."""
        bootstrap, reports = self.broker.bootstrap, self.story.reports()
        visible = readers.read_all(bootstrap, TARGET, PARTITIONS, "read_committed")
        everything = readers.read_all(bootstrap, TARGET, PARTITIONS, "read_uncommitted")
        found = judge.disorder(visible, self.counts)
        found += judge.broken_promises(visible, reports)
        found += judge.not_for_all(visible, everything)
        found += judge.differing(visible, self.reader.got, "read in the end, and live")
        other = readers.read_by_kafka_python(bootstrap, TARGET, self.ends)
        found += judge.differing(visible, other, "read by confluent-kafka, and by kafka-python")
        offsets = committed(bootstrap, GROUP, SOURCE, PARTITIONS)
        expected = {f"{SOURCE}/{at}": count for at, count in self.counts.items()}
        if offsets != expected:
            found.append(f"the group's offsets are {offsets}, and not {expected}")
        may_be_fenced = {instance.name for instance in self.superseded}
        found += [
            f"{report.instance} is fenced without a successor: {report.why}"
            for report in self.story.reports("fenced")
            if report.instance not in may_be_fenced
        ]
        found += [
            f"{report.instance} {report.why}"
            for report in self.story.reports("failed")
            if report.why.startswith(HANGS)
        ]
        self.invisible = sum(map(len, everything.values())) - sum(map(len, visible.values()))
        return found

    def tail(self) -> str:
        """For messages about a failed test."""
        errors = "\n".join(instance.errors() for instance in self.slots)
        return f"{errors}\n{self.story.tail()}\n{self.broker.tail()}"

    def _start(self, transactional_id: str) -> Instance:
        name = f"i{next(self._numbers)}"
        instance = Instance(
            self.client, self.broker.bootstrap, transactional_id, name, self.story, self.home
        )
        self._stack.callback(instance.close)
        return instance

    def _replace_ended(self) -> None:
        """As a supervisor of such programs would: one that gave up is started again."""
        for slot, instance in enumerate(self.slots):
            if not instance.runs:
                self._gave_up(instance)
                self.slots[slot] = self._start(instance.transactional_id)

    def _gave_up(self, instance: Instance) -> None:
        instance.close()
        end = instance.end()
        self.ended.append(f"{instance.name} {end.what}: {end.why}" if end else instance.errors())

    def _finish(self, instance: Instance) -> None:
        code = instance.finish()
        if instance in self.superseded and instance.reported("failed"):
            self._gave_up(instance)
            return
        end = instance.end()
        well = ("left", "fenced") if instance in self.superseded else ("left",)
        assert code == 0 and end is not None and end.what in well, (
            f"{instance.name} ended with {code}: {end}\n{instance.tail()}"
        )


def play(
    broker: BrokerProcess, client: TransactionClient, home: Path, plan: Plan, chance: random.Random
) -> None:
    """All of it; every check."""
    with Scenario(broker, client, home, chance) as scenario:
        began = time.monotonic()
        scenario.begin(plan.records)
        kill_broker = partial(scenario.kill_broker, plan.second_kill)
        faults: list[Callable[[], None]] = [kill_broker] * plan.broker_kills
        faults += [scenario.kill_instance] * plan.instance_kills
        faults += [scenario.supersede] * plan.superseded
        chance.shuffle(faults)
        for at in sorted(chance.uniform(EARLIEST, LATEST) for _ in faults):
            scenario.await_count(int(at * plan.records))
            random_moment(chance, MOMENT_S)
            faults.pop()()
        scenario.await_count(plan.records)
        took_s = time.monotonic() - began
        scenario.finish()
        complaints = scenario.complaints()
        ends = Counter(
            report.what for report in scenario.story.reports("committed", "aborted", "fenced")
        )
        print(
            f"{client.name}: {plan.records} records in {took_s:.1f} s; broker killed"
            f" {scenario.kills} times, instances {plan.instance_kills}, superseded"
            f" {plan.superseded}; attempts {dict(ends)}; {scenario.invisible} records not visible"
        )
        for why in scenario.ended:
            print(f"{client.name}: {why}")
        assert not complaints, "\n".join([*complaints[:20], scenario.tail()])
