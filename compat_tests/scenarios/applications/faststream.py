"""faststream: applications that read a topic of JSON and write another one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Final

from kavka.compat_tests.driver import Driver
from kavka.compat_tests.errors import Mismatch
from kavka.compat_tests.records import Json, Partition, Read, Record
from kavka.compat_tests.scenario import (
    RETRY_S,
    SETTLED_S,
    Scenario,
    Trial,
    equal,
    read,
    stored,
)
from kavka.compat_tests.scenarios.applications.committing import committed_are

PARTITIONS: Final = 3
CUSTOMERS: Final = 12
ORDERS: Final = 300
"""That an application handles in one scenario: it commits each of them."""

FIRST: Final = 50
"""Orders that are handled before an application is stopped."""

LIBRARIES: Final = {"kafka": "aiokafka", "confluent": "librdkafka"}
JOINED: Final = ("FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch")
HANDLED: Final = ("Fetch", "Produce", "OffsetCommit")


def customer(number: int) -> str:
    return f"customer {number % CUSTOMERS}"


def order(number: int) -> Record:
    """Its partition goes by the customer."""
    who = customer(number)
    content = {"customer": who, "number": number, "amount": number * 10}
    return Record(json.dumps(content).encode(), who.encode(), partition=None)


def bill(number: int) -> object:
    return {"customer": customer(number), "number": number, "total": number * 20}


def check_bills(found: Iterable[Read], count: int) -> None:
    """One for each order, and those of a customer in the order of the orders."""
    bills = [json.loads(record.value or b"null") for record in found]
    for who in map(customer, range(CUSTOMERS)):
        expected = [bill(number) for number in range(count) if customer(number) == who]
        equal(
            [billed for billed in bills if billed["customer"] == who], expected, f"bills of {who}"
        )
    types = {dict(record.headers).get("content-type") for record in found}
    equal(types, {b"application/json"}, "types of content")


async def writer(trial: Trial) -> Driver:
    driver = await trial.reference()
    await driver.ask("producer", acks="all")
    return driver


async def bills_of(trial: Trial, topic: str, partitions: int, count: int) -> list[Read]:
    """All bills. There must be no more when the applications have ended."""
    reader = await trial.reference()
    await reader.ask("consumer")
    await reader.assign({Partition(topic, index): "earliest" for index in range(partitions)})
    found = await read(reader, count, round(SETTLED_S * 1000))
    ends = await reader.ask(
        "ends", partitions=[Partition(topic, n).as_json() for n in range(partitions)]
    )
    equal(sum(end["latest"] for end in ends["ends"]), count, "number of bills")
    return found


async def handled(app: Driver, count: int) -> None:
    """Wait until an application has handled so many orders at least."""
    loop = asyncio.get_running_loop()
    until = loop.time() + SETTLED_S
    while (done := sum((await app.ask("handled"))["sizes"])) < count:
        if loop.time() > until:
            raise Mismatch(f"{done} of {count} orders were handled in {SETTLED_S:.0f} s")
        await asyncio.sleep(RETRY_S)


def through(name: str, library: str, title: str, *, batches: bool) -> Scenario:
    """Every order is handled once."""

    async def run(trial: Trial) -> None:
        partitions = 1 if batches else PARTITIONS  # bills of a batch have no key to go by
        source, sink = await trial.topic(PARTITIONS), await trial.topic(partitions)
        group = trial.name("group")
        await stored(await writer(trial), source, [order(number) for number in range(ORDERS)])
        app = await trial.driver()
        with trial.step("start an application with a group", *JOINED):
            arguments: Json = {"library": library, "batches": batches, "group": group}
            await app.ask("start", **arguments, input=source, output=sink)
        with trial.step("handle orders and commit them", *HANDLED):
            await handled(app, ORDERS)
            await committed_are(trial, group, ORDERS)
        with trial.step("stop it", "LeaveGroup"):
            sizes = (await app.ask("stop"))["sizes"]
            equal(sum(sizes), ORDERS, "number of handled orders")
            equal(max(sizes) > 1, batches, "whether orders came in batches")
        with trial.step("read a bill for each order", "Fetch"):
            check_bills(await bills_of(trial, sink, partitions, ORDERS), ORDERS)

    return Scenario(name, title, run, only="faststream")


def resumed(name: str, library: str, title: str) -> Scenario:
    """An application is stopped in the middle, and another instance goes on."""

    async def run(trial: Trial) -> None:
        source, sink = await trial.topic(PARTITIONS), await trial.topic(PARTITIONS)
        producer, group = await writer(trial), trial.name("group")
        await stored(producer, source, [order(number) for number in range(ORDERS)])
        first, second = await trial.driver(), await trial.driver()
        arguments: Json = {"library": library, "batches": False, "group": group}
        arguments |= {"input": source, "output": sink}
        with trial.step("start an application and let it handle orders", *JOINED, *HANDLED):
            await first.ask("start", **arguments)
            await handled(first, FIRST)
        with trial.step("stop it, with all committed that it has handled", "OffsetCommit"):
            done = len((await first.ask("stop"))["sizes"])
            await committed_are(trial, group, done)
        await stored(producer, source, [order(ORDERS + number) for number in range(ORDERS)])
        with trial.step("go on from there as another instance", *JOINED, *HANDLED):
            await second.ask("start", **arguments)
            await handled(second, 2 * ORDERS - done)
            await committed_are(trial, group, 2 * ORDERS)
            rest = len((await second.ask("stop"))["sizes"])
            equal(rest, 2 * ORDERS - done, "number of orders that the second handled")
        with trial.step("read a bill for each order", "Fetch"):
            check_bills(await bills_of(trial, sink, PARTITIONS, 2 * ORDERS), 2 * ORDERS)

    return Scenario(name, title, run, only="faststream")


def with_library(library: str) -> Iterable[Scenario]:
    on = f"on {LIBRARIES[library]}"
    yield through(
        f"faststream-{library}", library, f"JSON from topic to topic, {on}", batches=False
    )
    yield through(f"faststream-{library}-batches", library, f"Batches of JSON, {on}", batches=True)
    yield resumed(
        f"faststream-{library}-stops", library, f"A second instance goes on where one stopped, {on}"
    )


ALL: Final = tuple(scenario for library in LIBRARIES for scenario in with_library(library))
