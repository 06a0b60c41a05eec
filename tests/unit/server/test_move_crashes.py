"""The broker dies at every single step that it makes on its disk while all its partitions, those of
its coordinators too, move to and fro between two log directories and transactions are written.

Wherever the death strikes, each record that was acknowledged is there once and in its place, each
transaction is all there or not at all, and in the end there is one log of each partition.
CRASH_EVERY (60; `make moves` sets 1) leaves steps out.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

from support.memory_broker import NEVER_AWAITED, NO_ERROR
from support.memory_transactions import committed
from support.mortal_broker import MortalBroker, run_mortal
from support.transactional import Script, TransactionalProducer

EVERY = int(os.environ.get("CRASH_EVERY", "60"))
DIRECTORIES = ("/data", "/more")
GROUP = "g"
PARTITIONS = 2
PLACES = (("t", 0), ("t", 1), ("__consumer_offsets", 0), ("__transaction_state", 0))
SETTINGS = (
    f"log.dirs={','.join(DIRECTORIES)}",
    "transaction.state.log.num.partitions=1",
    "offsets.topic.num.partitions=1",
    "log.roll.ms=1",  # each marker begins a segment
    "log.segment.delete.delay.ms=1000",
    "kavka.durability=fsync",
)
ROUNDS = 4
STEPS_MIN = 900
"""The story is made of more."""
SOON_MS = 1_000
LONG_MS = 20_000

pytestmark = [NEVER_AWAITED, pytest.mark.timeout(3600)]


def directories_of(broker: MortalBroker) -> dict[str, list[str]]:
    """By name of a log: the log directories that have it."""
    found: dict[str, list[str]] = {}
    for directory in DIRECTORIES:
        for name in broker.fs.list_dir(directory):
            if broker.fs.is_dir(f"{directory}/{name}") and not name.endswith("-delete"):
                found.setdefault(name, []).append(directory)
    return found


class Story:
    """A client that writes transactions, aborts every other one, and has all partitions moved
    before each."""

    def __init__(self) -> None:
        self.producer = TransactionalProducer("tx", 2, "t")
        self.visible: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}
        self.offset = -1

    async def play(self, broker: MortalBroker, revive: Any) -> None:
        async def ask(script: Script) -> None:
            assert await broker.play(script, revive)

        await ask(self.producer.find())
        await ask(self.producer.init())
        for number in range(ROUNDS):
            await self.move(broker, number)
            await self.transaction(ask, number, commit=number % 2 == 0)

    async def move(self, broker: MortalBroker, number: int) -> None:
        """Ask for the directory that most are not in, without waiting for anything."""
        for index, (topic, partition) in enumerate(PLACES):
            path = DIRECTORIES[(number + index) % 2]
            directory = {"path": path, "topics": [{"name": topic, "partitions": [partition]}]}
            if not broker.is_dead:
                broker.client.send("AlterReplicaLogDirs", 2, dirs=[directory])

    async def transaction(self, ask: Any, number: int, *, commit: bool) -> None:
        written: list[tuple[int, bytes]] = []
        for partition in (0, 1, 0):
            first = len(written)
            values = [b"%d/%d/%d" % (number, partition, first + nth) for nth in range(2)]
            await ask(self.producer.write(partition, values))
            written += [(partition, value) for value in values]
        await ask(self.producer.commit_offset(GROUP, number))
        await ask(self.producer.end(commit=commit))
        if commit:
            self.offset = number
            for partition, value in written:
                self.visible[partition].append(value)


async def check(broker: MortalBroker, story: Story) -> None:
    """Everything is there once, and in one place."""
    await broker.advance(LONG_MS)
    places = directories_of(broker)
    assert not [name for name in places if name.endswith("-future")], places
    assert all(len(found) == 1 for found in places.values()), places
    for partition in range(PARTITIONS):
        stable = await broker.list_offset(-1, partition=partition, isolation_level=1)
        everything = await broker.list_offset(-1, partition=partition)
        assert stable.offset == everything.offset
        assert await committed(broker, ("t", partition)) == story.visible[partition]
    await broker.ask("FindCoordinator", 2, key=GROUP, key_type=0)
    group = {"group_id": GROUP, "topics": [{"name": "t", "partition_indexes": [0]}]}
    answer = await broker.ask("OffsetFetch", 8, groups=[group], require_stable=True)
    (found,) = answer.groups[0].topics[0].partitions
    assert (found.error_code, found.committed_offset) == (NO_ERROR, story.offset)


async def strike(step: int, *, power: bool) -> bool:
    """One death at one step; False: there are not so many steps."""
    broker, story = MortalBroker(*SETTINGS), Story()
    await broker.start()
    await broker.create("t", PARTITIONS)
    broker.fs.dies_after = step
    chance = random.Random(step)
    deaths = 0

    async def revive() -> None:
        nonlocal deaths
        deaths += 1
        await broker.bury(chance, power=power)
        await broker.revive()

    await story.play(broker, revive)
    await broker.advance(SOON_MS)
    if broker.is_dead:
        await revive()
    broker.fs.dies_after = None
    await check(broker, story)
    await broker.restart()
    await check(broker, story)
    await broker.stop()
    return deaths > 0


def steps(*, power: bool) -> Iterator[int]:
    step = EVERY // 2 * power
    while run_mortal(strike(step, power=power)):
        yield step
        step += EVERY


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power cut"])
def test_a_death_at_any_step_of_moves(power: bool) -> None:
    struck = list(steps(power=power))
    assert struck[-1] > STEPS_MIN
