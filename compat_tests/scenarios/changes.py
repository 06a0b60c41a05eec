"""What changes under a running client: topics, partitions, and the broker itself."""

from __future__ import annotations

import asyncio
from typing import Final

from kavka.compat_tests.cutting import cut
from kavka.compat_tests.driver import Driver
from kavka.compat_tests.errors import Mismatch, NotHere, Refused
from kavka.compat_tests.records import Partition, Read, Record, Refusal
from kavka.compat_tests.scenario import (
    JOIN_MS,
    RETRY_S,
    Scenario,
    Trial,
    becomes,
    equal,
    read,
    stored,
)

UNKNOWN: Final = ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "INCONSISTENT_TOPIC_ID")
METADATA_MS: Final = 1_000
QUIET_MS: Final = 1_500
CUTS: Final = 3
CUT_BYTES: Final = 100_000
"""Of requests that pass before a connection breaks."""

CUT_RECORDS: Final = 400


async def stored_again(producer: Driver, topic: str, record: Record) -> None:
    """Send a record until it is stored, as a user does whose library gives it up when the broker
    does not know the topic."""

    async def send() -> str:
        (outcome,) = await producer.send(topic, [record])
        if isinstance(outcome, Refusal) and outcome.name not in UNKNOWN:
            raise Mismatch(f"the record was refused: {outcome}")
        return outcome.name if isinstance(outcome, Refusal) else "stored"

    await becomes(send, "stored", "the record")


async def read_on(reader: Driver, count: int) -> list[Read]:
    """The next records, after errors too: some libraries tell them to their users and go on. A poll
    ends at an error, with fewer records if there were some before it."""
    loop = asyncio.get_running_loop()
    until, found = loop.time() + JOIN_MS / 1000, list[Read]()
    while len(found) < count and (left_s := until - loop.time()) > 0:
        try:
            found += await reader.poll(count - len(found), max(round(left_s * 1000), 1))
        except Refused:
            if loop.time() > until:
                raise
            await asyncio.sleep(RETRY_S)
    equal(len(found), count, "number of records")
    return found


async def run_new_partitions(trial: Trial) -> None:
    topic, group = await trial.topic(1), trial.name("group")
    member = await trial.member(group, [topic], metadata_max_age_ms=METADATA_MS)
    await becomes(member.assignment, {Partition(topic, 0)}, "assignment")
    admin = await trial.driver()
    with trial.step("add partitions under a running member", "CreatePartitions", "Metadata"):
        await admin.ask("create_partitions", topic=topic, total=3)
        expected = {Partition(topic, index) for index in range(3)}
        await becomes(member.assignment, expected, "assignment")
    with trial.step("read what is written to a new one", "Fetch"):
        await stored(await trial.producer(), topic, [Record(b"new", partition=2)])
        (found,) = await read(member, 1)
        equal((found.partition, found.value), (2, b"new"), "partition and value")


async def run_recreated(trial: Trial) -> None:
    admin, topic = await trial.driver(), trial.name()
    await trial.broker.create_topic(topic, 1, {})
    producer = await trial.producer()
    await stored(producer, topic, [Record(b"old")] * 5)
    with trial.step("delete a topic and create it again", "DeleteTopics", "CreateTopics"):
        await admin.ask("delete_topic", topic=topic)

        async def is_gone() -> bool:
            found = await trial.broker.admin.topics_named([topic])
            return found[topic].error_code != 0

        await becomes(is_gone, True, "whether it is gone")
        await trial.broker.create_topic(topic, 1, {}, again=True)
    with trial.step("write to it with the producer of before", "Produce", "Metadata"):
        await stored_again(producer, topic, Record(b"new"))
    with trial.step("read only the new record", "Fetch"):
        reader = await trial.reader({Partition(topic, 0): "earliest"})
        found = await read(reader, 1)
        equal(
            [(record.offset, record.value) for record in found], [(0, b"new")], "offset and value"
        )


async def run_restart(trial: Trial) -> None:
    topic, group = await trial.topic(), trial.name("group")
    partition = Partition(topic, 0)
    producer = await trial.producer(acks="all")
    # Apache Kafka with ZooKeeper answers for seconds after a start as if there were no topics.
    member = await trial.member(group, [topic], metadata_max_age_ms=METADATA_MS)
    await stored(producer, topic, [Record(b"before")] * 3)
    await read(member, 3)
    await member.commit({partition: 3})
    with trial.step("restart the broker"):
        assert trial.broker.restart is not None
        await trial.broker.restart()
        await trial.broker.await_leader(topic)  # some clients retry for a second only
    with trial.step("go on writing", "Produce", "Metadata"):
        placed = await stored(producer, topic, [Record(b"after")] * 3)
        equal(sorted(place.offset for place in placed), [3, 4, 5], "offsets")
    with trial.step("go on reading as the same member", "JoinGroup", "OffsetFetch", "Fetch"):
        found = await read_on(member, 3)
        equal(
            [(record.offset, record.value) for record in found],
            [(n, b"after") for n in (3, 4, 5)],
            "rest",
        )

        async def commit() -> object:
            try:
                await member.commit({partition: 6})
                return await member.committed([partition])
            except Refused as refused:  # over a connection of before the restart
                return refused.name

        await becomes(commit, [6], "committed offset")


async def run_compacted(trial: Trial) -> None:
    topic = await trial.topic(cleanup_policy="compact")
    with trial.step("write keys and tombstones to a compacted topic", "Produce"):
        producer = await trial.producer()
        await stored(producer, topic, [Record(b"1", b"a"), Record(b"2", b"b"), Record(None, b"a")])
    with trial.step("have a record without a key refused", "Produce"):
        (outcome,) = await producer.send(topic, [Record(b"value")])
        equal(hasattr(outcome, "name"), True, "whether it was refused")
    with trial.step("read the latest value of each key", "Fetch"):
        found = await read(await trial.reader({Partition(topic, 0): 0}), 3)
        latest = {record.key: record.value for record in found}
        equal(latest, {b"a": None, b"b": b"2"}, "latest values")


async def run_leader_change(trial: Trial) -> None:
    topic = trial.name()
    await trial.broker.create_topic(topic, 1, {}, replicas=2)
    is_idempotent = "idempotence" in trial.can
    in_order = list if is_idempotent else sorted  # what is sent again may be out of order
    producer, reader = (
        await trial.producer(acks="all", idempotent=is_idempotent or None),
        await trial.reader({Partition(topic, 0): 0}),
    )
    records = [Record(str(number).encode()) for number in range(10)]
    with trial.step("write and read before the leader changes", "Produce", "Fetch"):
        await stored(producer, topic, records)
        await read(reader, 10)
    for turn in (1, 2):
        with trial.step("move the leadership to the other replica", "Metadata", "Produce"):
            await trial.broker.move_leader(topic)
            placed = await stored(producer, topic, records)
            offsets = in_order(place.offset for place in placed)
            equal(offsets, [*range(10 * turn, 10 * turn + 10)], "offsets")
        with trial.step("go on reading from the new leader", "Metadata", "Fetch"):
            found = await read_on(reader, 10)
            values = in_order(record.value or b"" for record in found)
            equal(values, [record.value for record in records], "values")


async def run_auto_create(trial: Trial) -> None:
    if await trial.broker.config("auto.create.topics.enable") != "true":
        raise NotHere("auto.create.topics.enable is not true")
    topic = trial.name()
    with trial.step("write to a topic that is not there yet", "Metadata", "Produce"):
        (placed,) = await stored(await trial.producer(), topic, [Record(b"first")])
        equal(placed.offset, 0, "offset")
    with trial.step("read it", "Fetch"):
        (found,) = await read(await trial.reader({Partition(topic, 0): 0}), 1)
        equal(found.value, b"first", "value")


async def run_cut_off(trial: Trial) -> None:
    topic = await trial.topic()
    records = [Record(f"{number} ".encode() * 500) for number in range(CUT_RECORDS)]
    is_idempotent = "idempotence" in trial.can
    async with cut(trial.broker, [CUT_BYTES] * CUTS) as (bootstrap, network):
        with trial.step(f"write while {CUTS} connections break within a request", "Produce"):
            producer = await trial.driver(bootstrap)
            batches = CUT_BYTES // 4
            await producer.ask(
                "producer", acks="all", idempotent=is_idempotent or None, batch_bytes=batches
            )
            await stored(producer, topic, records)
            await producer.ask("close_producer")
            equal(network.made, CUTS, "connections that were cut")
    with trial.step("read each record, once and in order if the producer is idempotent", "Fetch"):
        reader = await trial.reader({Partition(topic, 0): 0})
        found = await read(reader, len(records))
        if is_idempotent:
            equal(
                [record.value for record in found], [record.value for record in records], "values"
            )
            equal(await reader.poll(1, QUIET_MS), [], "further records")


NEEDS: Final = frozenset({"produce"})
ALL: Final = (
    Scenario(
        "auto-create",
        "A topic created by its first record",
        run_auto_create,
        NEEDS | {"auto_create"},
    ),
    Scenario("compacted", "A compacted topic", run_compacted, NEEDS),
    Scenario(
        "new-partitions",
        "New partitions under a running member",
        run_new_partitions,
        frozenset({"consume", "group", "create_partitions", "new_partitions"}),
    ),
    Scenario(
        "recreated",
        "A topic deleted and created again",
        run_recreated,
        NEEDS | {"delete_topic", "recreated"},
    ),
    Scenario(
        "cut-off",
        "Connections that break in the middle of a request",
        run_cut_off,
        NEEDS | {"acks", "retries"},
    ),
    Scenario(
        "leader-change",
        "Another broker becomes the leader under running clients",
        run_leader_change,
        NEEDS | {"acks", "retries"},
        of_cluster=True,
    ),
    Scenario(
        "broker-restart",
        "The broker restarts under a running producer and member",
        run_restart,
        NEEDS | {"consume", "group", "retries"},
        controls=True,
    ),
)
