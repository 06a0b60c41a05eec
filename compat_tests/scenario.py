"""What a scenario is, and what it gets to work with."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kavka.compat_tests.broker import Broker
from kavka.compat_tests.driver import Driver, Drivers
from kavka.compat_tests.errors import Mismatch, Refused
from kavka.compat_tests.records import Partition, Placed, Read, Record, Refusal

READ_MS: Final = 20_000
"""How long records may take to be read that are there."""

JOIN_MS: Final = 100_000
"""How long it may take until a member has joined its group again and reads: some wait for the end
of their own old session, which takes a minute by default."""

SETTLED_S: Final = 60.0
"""How long a change may take to be seen: a rebalance, for instance, on a busy machine."""
RETRY_S: Final = 0.2
SHOWN_CHARS: Final = 300


class Step(NamedTuple):
    """A part of a scenario: what is tried, and the APIs of which a failure speaks."""

    text: str
    apis: tuple[str, ...]


@dataclass(frozen=True)
class Scenario:
    """One column of the matrix.

    `needs`: the features (see drivers/README.md) without which it makes no sense. `controls`: it
    restarts the broker, so that it runs alone and only where the suite can do that. `of_cluster`:
    it needs two brokers at least. `only`: the application that it is for, by its name; the others
    are for all clients that are no applications.
    """

    name: str
    title: str
    run: Callable[[Trial], Awaitable[None]]
    needs: frozenset[str] = frozenset()
    quick: bool = False
    controls: bool = False
    of_cluster: bool = False
    only: str = ""


@dataclass
class Trial:
    """One scenario with one client: its topics, groups and drivers, and the step it is in."""

    broker: Broker
    drivers: Drivers
    references: Drivers
    """Of kafka-python: for what goes into an application and comes out, and in the place of what
    the client lacks and a scenario is not about."""
    can: Collection[str]
    """The client's features."""
    label: str
    """Of what it creates; unlike that of any other trial."""
    steps: list[Step] = field(default_factory=list)
    """Those that were begun; the last is the one in which a failed scenario stopped."""
    _taken: list[tuple[Drivers, Driver]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @contextmanager
    def step(self, text: str, *apis: str) -> Iterator[None]:
        """What is tried inside; `apis` are the requests that it is about."""
        self.steps.append(Step(text, apis))
        yield

    def name(self, kind: str = "topic") -> str:
        """A new name for a topic, a group or a transactional id."""
        return f"{self.label}-{kind}-{next(self._numbers)}"

    async def topic(self, partitions: int = 1, **configs: str) -> str:
        """A new topic, whose partitions have leaders. Configs have `_` for `.` in their names."""
        name = self.name()
        named = {key.replace("_", "."): value for key, value in configs.items()}
        await self.broker.create_topic(name, partitions, named)
        return name

    async def driver(self, bootstrap: str | None = None, *, client_id: str | None = None) -> Driver:
        """A driver of the client, which is this trial's until it ends; `bootstrap`: another address
        than the broker's."""
        return await self._take(self.drivers.other(bootstrap or self.broker.bootstrap, client_id))

    async def reference(self, bootstrap: str | None = None) -> Driver:
        """A driver of kafka-python, which is this trial's until it ends."""
        return await self._take(self.references.other(bootstrap or self.broker.bootstrap, None))

    async def _able(self, *features: str) -> Driver:
        return await (self.driver() if {*features} <= {*self.can} else self.reference())

    async def _take(self, drivers: Drivers) -> Driver:
        driver = await drivers.take()
        self._taken.append((drivers, driver))
        return driver

    async def producer(self, *features: str, **settings: Any) -> Driver:
        """A driver that has a producer: the client's, or kafka-python's if the client has none or
        lacks one of these features."""
        driver = await self._able("produce", *features)
        await driver.ask("producer", **settings)
        return driver

    async def reader(self, offsets: Mapping[Partition, int | str], **settings: Any) -> Driver:
        """A driver that has a consumer without a group, which reads from these offsets:
        kafka-python's if the client has none, or none with the isolation that is asked for."""
        driver = await self._able("consume", *({"isolation"} & settings.keys()))
        await driver.ask("consumer", **settings)
        await driver.assign(offsets)
        return driver

    async def member(self, group: str, topics: Sequence[str], **settings: Any) -> Driver:
        """A driver that has a consumer of a group, which is subscribed to topics."""
        driver = await self.driver()
        await driver.ask("consumer", group=group, **settings)
        await driver.ask("subscribe", topics=list(topics))
        return driver

    async def close(self) -> None:
        """Close all producers and consumers in an orderly way. Refused; DriverFailed."""
        while self._taken:
            drivers, driver = self._taken.pop()
            await drivers.give_back(driver)

    async def kill(self) -> None:
        """End all drivers."""
        while self._taken:
            _, driver = self._taken.pop()
            await driver.kill()


async def stored(driver: Driver, topic: str, records: Sequence[Record]) -> list[Placed]:
    """Send records, all of which must be acknowledged: their places."""
    placed = await driver.send(topic, records)
    equal(len(placed), len(records), "number of acknowledgements")
    for index, outcome in enumerate(placed):
        if isinstance(outcome, Refusal):
            raise Mismatch(f"record {index} was refused: {shown(outcome)}")
    return [outcome for outcome in placed if isinstance(outcome, Placed)]


async def read(driver: Driver, count: int, within_ms: int = READ_MS) -> list[Read]:
    """The next records, which must be so many."""
    found = await driver.poll(count, within_ms)
    if len(found) != count:
        places = ", ".join(f"{record.partition}@{record.offset}" for record in found[:20])
        raise Mismatch(f"{len(found)} of {count} records within {within_ms} ms: {places or 'none'}")
    return found


async def refused(request: Awaitable[object], *names: str) -> None:
    """A request that must be refused, with one of these errors."""
    try:
        found = await request
    except Refused as refusal:
        if refusal.name not in names:
            raise Mismatch(f"expected {' or '.join(names)}, got {refusal}") from refusal
    else:
        raise Mismatch(f"expected {' or '.join(names)}, but it succeeded: {shown(found)}")


def equal(found: object, expected: object, label: str) -> None:
    """What a client saw must be what it should be."""
    if found != expected:
        raise Mismatch(f"{label}: {shown(found)}, expected {shown(expected)}")


async def becomes(
    ask: Callable[[], Awaitable[object]], expected: object, label: str, within_s: float = SETTLED_S
) -> None:
    """What a client sees must become something, as changes take their time to be known."""
    loop = asyncio.get_running_loop()
    until = loop.time() + within_s
    while (found := await ask()) != expected:
        if loop.time() > until:
            raise Mismatch(f"{label}: {shown(found)} after {within_s:.0f} s, not {shown(expected)}")
        await asyncio.sleep(RETRY_S)


def shown(found: object) -> str:
    """For a message."""
    text = repr(found)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."
