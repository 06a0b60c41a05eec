"""The broker dies at every single step that it makes on its disk in a story of transactions, and
what is there afterwards is the one thing that may be there.

Wherever the death strikes, each transaction is all there or not at all, and what was answered
counts. Where the client does nothing, the state on the disk says what it must come to. Three
clients are tried: one that goes on where it was, one that starts over, one that is never seen
again. CRASH_EVERY (24; `make commits` sets 1) leaves steps out.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pytest
from kafka.errors import CorruptRecordError
from kafka.record import MemoryRecords

from support.logs import Producer
from support.memory_broker import DATA, NEVER_AWAITED, NO_ERROR
from support.memory_transactions import committed
from support.mortal_broker import MortalBroker, run_mortal
from support.transactional import TransactionalProducer

EVERY = int(os.environ.get("CRASH_EVERY", "24"))
STATES_AT = 16
"""Where TransactionLogValue has the state: behind version, producer id, epoch and timeout."""
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMMITTED, ABORTED = range(6)
NOTHING = -1
COMES_TO = {
    NOTHING: NOTHING,
    EMPTY: EMPTY,
    ONGOING: ONGOING,
    PREPARE_COMMIT: COMMITTED,
    PREPARE_ABORT: ABORTED,
    COMMITTED: COMMITTED,
    ABORTED: ABORTED,
}
NAME = "tx"
PARTITIONS = 2
GROUP = "g"
SETTINGS = ("transaction.state.log.num.partitions=1", "offsets.topic.num.partitions=1")
TIMEOUT_MS, CLEANUP_MS = 60_000, 10_000
SOON_MS = 1_000
STEPS_MIN = 70
"""Transactions are made of more."""

pytestmark = [NEVER_AWAITED, pytest.mark.timeout(600)]


class End(Enum):
    """How a transaction ended, as far as its client knows."""

    OPEN = "open"
    COMMITTING = "committing"
    ABORTING = "aborting"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass
class Transaction:
    """What a client has written in one, and what it knows of it."""

    offset: int
    """That of its group."""
    values: dict[int, list[bytes]] = field(default_factory=dict)
    end: End = End.OPEN


@dataclass
class Story:
    """A client's transactions, one after the other."""

    producer: TransactionalProducer
    notified: list[Transaction] = field(default_factory=list)
    producers: list[Producer] = field(default_factory=list)
    """All that it was."""

    PLAN = (((0, 1), True), ((1,), False), ((0,), True), ((0, 1), None), ((1, 0), True))
    """The partitions that are written to, and whether it is committed; None: never ended."""

    async def play(self, broker: MortalBroker, revive: Any = None) -> bool:
        """False: the broker died."""

        async def ask(script: Any) -> None:
            if not await broker.play(script, revive):
                raise Died

        try:
            await self.begin(ask)
            for partitions, commit in self.PLAN:
                await self.transaction(ask, partitions, commit=commit)
        except Died:
            return False
        await broker.advance(SOON_MS)
        return not broker.is_dead

    async def begin(self, ask: Any) -> None:
        """Start over: what was open is aborted."""
        await ask(self.producer.find())
        await ask(self.producer.init())
        self.producers.append(self.producer.now)
        for transaction in self.notified:
            if transaction.end is End.OPEN:
                transaction.end = End.ABORTED

    async def transaction(
        self, ask: Any, partitions: Sequence[int], *, commit: bool | None
    ) -> None:
        """One whole transaction."""
        now = Transaction(len(self.notified))
        self.notified.append(now)
        await ask(self.producer.add(partitions))
        for partition in partitions:
            values = [b"%d/%d/%d" % (len(self.notified), partition, number) for number in range(2)]
            now.values[partition] = values
            await ask(self.producer.write(partition, values))
        await ask(self.producer.commit_offset(GROUP, now.offset))
        if commit is None:
            await self.begin(ask)
            return
        now.end = End.COMMITTING if commit else End.ABORTING
        await ask(self.producer.end(commit=commit))
        now.end = End.COMMITTED if commit else End.ABORTED

    def resolve_ends(self, state: int) -> None:
        """An end that was not answered is what the disk says: transactions follow each other, so
        a commit that has begun is the last one's."""
        for transaction in self.notified:
            if transaction.end is End.COMMITTING:
                has_begun = state in (PREPARE_COMMIT, COMMITTED)
                transaction.end = End.COMMITTED if has_begun else End.ABORTED
            elif transaction.end in (End.OPEN, End.ABORTING):
                transaction.end = End.ABORTED

    def visible(self, partition: int) -> list[bytes]:
        """What readers of committed records must get."""
        return [
            value
            for transaction in self.notified
            if transaction.end is End.COMMITTED
            for value in transaction.values.get(partition, ())
        ]

    def offset(self) -> int:
        """What its group has committed."""
        return max(
            (
                transaction.offset
                for transaction in self.notified
                if transaction.end is End.COMMITTED
            ),
            default=-1,
        )


class Died(Exception):
    """The broker has."""


async def born(protocol: int, *settings: str) -> tuple[MortalBroker, Story]:
    """A broker with a topic, and a client that has done nothing yet."""
    broker = MortalBroker(*SETTINGS, *settings)
    await broker.start()
    await broker.create("t", PARTITIONS)
    producer = TransactionalProducer(NAME, protocol, "t", TIMEOUT_MS)
    return broker, Story(producer)


def state_on_disk(broker: MortalBroker) -> int:
    """Of the transactional id, by the last whole record."""
    state = NOTHING
    directory = f"{DATA}/__transaction_state-0"
    if not broker.fs.exists(directory):
        return state
    for name in broker.fs.list_dir(directory):
        if name.endswith(".log"):
            for record in whole_records(broker.fs.read_bytes(f"{directory}/{name}")):
                state = record.value[STATES_AT]
    return state


def whole_records(data: bytes) -> Iterator[Any]:
    """The records up to the first batch that is not whole."""
    records = MemoryRecords(data)
    try:
        while (batch := records.next_batch()) is not None and batch.validate_crc():
            yield from batch
    except CorruptRecordError:  # no batch at all
        return


async def check(broker: MortalBroker, story: Story) -> None:
    """Each transaction is there or not, nothing is open, and a new one can be written."""
    await broker.advance(SOON_MS)
    assert state_on_disk(broker) in (NOTHING, EMPTY, COMMITTED, ABORTED)
    for partition in range(PARTITIONS):
        stable = await broker.list_offset(-1, partition=partition, isolation_level=1)
        everything = await broker.list_offset(-1, partition=partition)
        assert stable.offset == everything.offset >= 0, f"{partition} has an open transaction"
        assert await committed(broker, ("t", partition)) == story.visible(partition)
    assert await group_offset(broker) == story.offset()


async def group_offset(broker: MortalBroker) -> int:
    """As OffsetFetch responds, if nothing about it is undecided."""
    await broker.ask("FindCoordinator", 2, key=GROUP, key_type=0)
    group = {"group_id": GROUP, "topics": [{"name": "t", "partition_indexes": [0]}]}
    answer = await broker.ask("OffsetFetch", 8, groups=[group], require_stable=True)
    (found,) = answer.groups[0].topics[0].partitions
    assert (answer.groups[0].error_code, found.error_code) == (NO_ERROR, NO_ERROR), answer
    offset: int = found.committed_offset
    return offset


async def check_new(broker: MortalBroker, story: Story) -> None:
    """Another client of that name, and one of another, can write; no client gets a producer id that
    another has had."""
    for name in (NAME, "other"):
        producer = TransactionalProducer(name, 2, "t")
        newcomer = Story(producer, story.notified)

        async def ask(script: Any) -> None:
            assert await broker.play(script)

        await newcomer.begin(ask)
        if name != NAME:
            assert producer.now.id not in [earlier.id for earlier in story.producers]
        await newcomer.transaction(ask, (0, 1), commit=True)
        await check(broker, newcomer)


async def strike(step: int, protocol: int, client: str, *, power: bool = False) -> bool:
    """One death at one step, or the end of the power; False: there are not so many steps."""
    broker, story = await born(protocol, *(["kavka.durability=fsync"] if power else []))
    broker.fs.dies_after = step
    chance = random.Random(step)
    state, deaths = NOTHING, 0

    async def revive() -> None:
        nonlocal state, deaths
        deaths += 1
        await broker.bury(chance, power=power)
        state = state_on_disk(broker)
        await broker.revive()

    finished = await story.play(broker, revive if client == "goes on" else None)
    if broker.is_dead:
        await revive()
        await broker.advance(SOON_MS)
        assert state_on_disk(broker) == COMES_TO[state]
    broker.fs.dies_after = None
    if not finished:
        if client == "starts over":
            await story.begin(broker.play)
        elif state == ONGOING:
            await broker.advance(TIMEOUT_MS + CLEANUP_MS)
        story.resolve_ends(state)
    await check(broker, story)
    await check_new(broker, story)
    await broker.stop()
    return deaths > 0


CLIENTS = ("goes on", "starts over", "is gone")
WAYS = [(protocol, client) for protocol in (1, 2) for client in CLIENTS]


def strike_all(protocol: int, client: str, *, power: bool = False) -> None:
    """At each EVERYth step; all ways together leave none out."""
    step = (WAYS.index((protocol, client)) + len(WAYS) * power) % EVERY
    while run_mortal(strike(step, protocol, client, power=power)):
        step += EVERY
    assert step > STEPS_MIN


@pytest.mark.parametrize(("protocol", "client"), WAYS)
def test_a_death_at_any_step_leaves_the_one_legal_state(protocol: int, client: str) -> None:
    strike_all(protocol, client)


@pytest.mark.parametrize(("protocol", "client"), WAYS)
def test_so_does_a_power_cut(protocol: int, client: str) -> None:
    strike_all(protocol, client, power=True)
