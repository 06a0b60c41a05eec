"""An instance sleeps (SIGSTOP) in the middle of a transaction, and wakes when it is too late.

Either its transaction has timed out meanwhile, or another instance has taken its transactional id
and done its work. It then writes on and commits: it must be fenced, and nothing of that transaction
be seen by who reads committed records.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType

import pytest

from support.broker import StartBroker
from support.clients.kafka_python import create_topic
from support.process import BrokerProcess
from support.transactions import judge, readers
from support.transactions.clients import BROKER_SETTINGS, CLIENTS, TransactionClient
from support.transactions.instances import SOURCE, TARGET, Instance, Story
from support.transactions.readers import Got
from support.wait import eventually

IS_WHOLE = "TRANSACTION_RECORDS" in os.environ
WHO = [client for client in CLIENTS if IS_WHOLE or not client.name.endswith("-consumer")]
"""Each product; in the whole form (`make transactions`) with both protocols of groups."""

PARTITIONS = 2
COUNTS = dict.fromkeys(range(PARTITIONS), 120)
TIMEOUT_MS = 10_000
"""Longer than an instance, or a broker, pauses on a busy machine before it is put to sleep."""
WITHIN_S = 150.0
ASLEEP = judge.Attempt("zombie", 1)
HELD = MappingProxyType({"hold": "true"})
SHORT = MappingProxyType({**HELD, "producer.transaction.timeout.ms": str(TIMEOUT_MS)})


class Graveyard:
    """One run."""

    def __init__(
        self, broker: BrokerProcess, client: TransactionClient, home: Path, stack: ExitStack
    ) -> None:
        self.broker = broker
        self.client = client
        self.home = home
        self.stack = stack
        self.story = Story()
        create_topic(broker.bootstrap, SOURCE, PARTITIONS)
        create_topic(broker.bootstrap, TARGET, PARTITIONS)
        readers.fill(broker.bootstrap, SOURCE, COUNTS)

    def start(self, name: str, more: Mapping[str, str] = MappingProxyType({})) -> Instance:
        """An instance, all with the same transactional id."""
        instance = Instance(
            self.client, self.broker.bootstrap, "id", name, self.story, self.home, more
        )
        self.stack.callback(instance.close)
        return instance

    def asleep(self, settings: Mapping[str, str]) -> Instance:
        """One that has written a batch and not committed it, and is stopped."""
        zombie = self.start(ASLEEP.instance, settings)
        self.await_report(zombie, "held")
        zombie.pause()
        assert self.read("read_uncommitted")
        assert not self.read("read_committed")
        return zombie

    def wake(self, zombie: Instance) -> str:
        """It writes again what it wrote, and asks for the commit; what comes of it."""
        before = of_zombie(self.read("read_uncommitted"))
        zombie.resume()
        zombie.send("go on")
        end = self.await_report(zombie, "fenced", "committed", "aborted", "failed", "left")
        self.await_report(zombie, "refused")
        assert of_zombie(self.read("read_uncommitted")) == before
        return end

    def await_work(self, instance: Instance) -> None:
        """Wait until an instance has done all there is to do, and ends."""
        count = sum(COUNTS.values())
        eventually(
            lambda: len(self.read("read_committed")) >= count,
            within_s=WITHIN_S,
            what=f"{count} records in the output",
            detail=instance.tail,
        )
        assert instance.finish() == 0, instance.tail()

    def await_report(self, instance: Instance, *kinds: str) -> str:
        """Wait until an instance reports something; what."""
        found = eventually(
            lambda: instance.reported(*kinds),
            within_s=WITHIN_S,
            what=f"{kinds} reported",
            detail=instance.tail,
        )
        return found[0].what

    def read(self, isolation: str) -> list[tuple[int, int, bytes]]:
        """What is to be seen of the output."""
        got = self._got(isolation)
        return [(at, *record) for at, records in got.items() for record in records]

    def check(self) -> None:
        """All is there, once, and nothing of what the zombie slept on."""
        readers.await_stable(self.broker.bootstrap, TARGET, PARTITIONS, WITHIN_S)
        got = self._got("read_committed")
        complaints = judge.disorder(got, COUNTS)
        complaints += judge.broken_promises(got, self.story.reports())
        assert not complaints, complaints[:20]
        assert not of_zombie(self.read("read_committed"))

    def _got(self, isolation: str) -> Got:
        return readers.read_all(self.broker.bootstrap, TARGET, PARTITIONS, isolation)


def of_zombie(records: list[tuple[int, int, bytes]]) -> list[tuple[int, int, bytes]]:
    """Those of the attempt in which it slept."""
    return [record for record in records if judge.parse(record[2]).attempt == ASLEEP]


@pytest.fixture(params=WHO, ids=lambda client: client.name)
def graveyard(
    request: pytest.FixtureRequest, start_broker: StartBroker, tmp_path: Path
) -> Graveyard:
    client: TransactionClient = request.param
    client.start()  # what it needs is installed before the broker's time is taken
    stack = ExitStack()
    request.addfinalizer(stack.close)
    return Graveyard(start_broker(**BROKER_SETTINGS), client, tmp_path, stack)


def test_a_transaction_that_timed_out(graveyard: Graveyard) -> None:
    zombie = graveyard.asleep(SHORT)
    readers.await_stable(graveyard.broker.bootstrap, TARGET, PARTITIONS, WITHIN_S)
    end = graveyard.wake(zombie)
    if graveyard.client.revives:
        assert end == "aborted", zombie.tail()
        graveyard.await_work(zombie)
    else:
        assert end == "fenced", zombie.tail()
        assert zombie.finish() == 0, zombie.tail()
        assert not graveyard.read("read_committed")
        graveyard.await_work(graveyard.start("living"))
    graveyard.check()


def test_another_instance_has_done_the_work(graveyard: Graveyard) -> None:
    zombie = graveyard.asleep(HELD)
    graveyard.await_work(graveyard.start("living"))
    assert graveyard.wake(zombie) == "fenced", zombie.tail()
    assert zombie.finish() == 0, zombie.tail()
    graveyard.check()
