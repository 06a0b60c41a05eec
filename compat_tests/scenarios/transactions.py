"""Transactions: all or nothing, seen by readers of both isolation levels."""

from __future__ import annotations

from typing import Final

from kavka.compat_tests.driver import Driver
from kavka.compat_tests.errors import Mismatch
from kavka.compat_tests.records import Partition, Record, Refusal, is_of_protocol
from kavka.compat_tests.scenario import Scenario, Trial, becomes, equal, read, refused, stored

OPEN_MS: Final = 60_000
"""How long a transaction may be open; by default some clients ask for 5 s."""

QUIET_MS: Final = 1_500
"""How long a reader may look for records that it must not get."""

FENCED: Final = (
    "PRODUCER_FENCED",
    "INVALID_PRODUCER_EPOCH",
    "INVALID_TXN_STATE",
    "INVALID_PRODUCER_ID_MAPPING",
)
"""How it is said that a newer producer has the transactional id (KIP-360, KIP-588)."""


async def in_transaction(producer: Driver, topic: str, *values: bytes, commit: bool) -> None:
    await producer.ask("begin")
    await stored(producer, topic, [Record(value) for value in values])
    await producer.ask("commit_transaction" if commit else "abort_transaction")


async def run_commit(trial: Trial) -> None:
    topic = await trial.topic()
    with trial.step("begin as a transactional producer", "FindCoordinator", "InitProducerId"):
        producer = await trial.producer(transactional_id=trial.name("transactional-id"))
    with trial.step("commit two transactions", "AddPartitionsToTxn", "Produce", "EndTxn"):
        await in_transaction(producer, topic, b"1", b"2", commit=True)
        await in_transaction(producer, topic, b"3", commit=True)
    with trial.step("read all of it with read_committed", "Fetch"):
        reader = await trial.reader({Partition(topic, 0): 0}, isolation="read_committed")
        found = await read(reader, 3)
        equal([record.value for record in found], [b"1", b"2", b"3"], "values")
        equal(
            [record.offset for record in found],
            [0, 1, 3],
            "offsets, with a marker behind each commit",
        )


async def run_abort(trial: Trial) -> None:
    topic = await trial.topic()
    producer = await trial.producer(transactional_id=trial.name("transactional-id"))
    with trial.step("commit, abort and commit", "AddPartitionsToTxn", "Produce", "EndTxn"):
        await in_transaction(producer, topic, b"kept 1", commit=True)
        await in_transaction(producer, topic, b"aborted 1", b"aborted 2", commit=False)
        await in_transaction(producer, topic, b"kept 2", commit=True)
    with trial.step("read only what was committed with read_committed", "Fetch"):
        reader = await trial.reader({Partition(topic, 0): 0}, isolation="read_committed")
        found = await read(reader, 2)
        equal([record.value for record in found], [b"kept 1", b"kept 2"], "values")
    with trial.step("read everything with read_uncommitted", "Fetch"):
        reader = await trial.reader({Partition(topic, 0): 0}, isolation="read_uncommitted")
        found = await read(reader, 4)
        expected = [b"kept 1", b"aborted 1", b"aborted 2", b"kept 2"]
        equal([record.value for record in found], expected, "values")


async def run_open(trial: Trial) -> None:
    topic = await trial.topic()
    plain = await trial.producer()
    producer = await trial.producer(
        transactional_id=trial.name("transactional-id"), transaction_timeout_ms=OPEN_MS
    )
    await stored(plain, topic, [Record(b"before")])
    with trial.step("leave a transaction open", "AddPartitionsToTxn", "Produce"):
        await producer.ask("begin")
        await stored(producer, topic, [Record(b"open")])
        await stored(plain, topic, [Record(b"behind")])
    reader = await trial.reader({Partition(topic, 0): 0}, isolation="read_committed")
    with trial.step("read no further than the last stable offset", "Fetch"):
        found = await reader.poll(3, QUIET_MS * 4)
        equal([record.value for record in found], [b"before"], "values")
    with trial.step("read the rest once it is committed", "EndTxn", "Fetch"):
        await producer.ask("commit_transaction")
        found = await read(reader, 2)
        equal([record.value for record in found], [b"open", b"behind"], "values")


async def run_fencing(trial: Trial) -> None:
    topic, transactional_id = await trial.topic(), trial.name("transactional-id")
    first = await trial.producer(transactional_id=transactional_id)
    with trial.step("leave a transaction open", "AddPartitionsToTxn", "Produce"):
        await first.ask("begin")
        await stored(first, topic, [Record(b"of the first")])
    with trial.step("let a second producer take the id, which aborts it", "InitProducerId"):
        second = await trial.producer(transactional_id=transactional_id)
        await in_transaction(second, topic, b"of the second", commit=True)
    with trial.step("have the first fenced", "Produce", "EndTxn"):
        (outcome,) = await first.send(topic, [Record(b"too late")])
        if not isinstance(outcome, Refusal):
            await refused(first.ask("commit_transaction"), *FENCED)
        elif is_of_protocol(outcome) and outcome.name not in FENCED:
            raise Mismatch(f"its record was refused as {outcome}")
        await first.kill()
    with trial.step("read only what the second has written", "Fetch"):
        reader = await trial.reader({Partition(topic, 0): 0}, isolation="read_committed")
        found = await reader.poll(5, QUIET_MS * 4)
        equal([record.value for record in found], [b"of the second"], "values")


async def run_copy(trial: Trial) -> None:
    source, target, group = await trial.topic(), await trial.topic(), trial.name("group")
    await stored(
        await trial.producer(), source, [Record(str(number).encode()) for number in range(10)]
    )
    partition = Partition(source, 0)

    with trial.step("read as a member of a group", "JoinGroup", "SyncGroup", "Fetch"):
        copier = await trial.member(group, [source])
        await copier.ask("producer", transactional_id=trial.name("transactional-id"))
        found = await read(copier, 10)
    offsets = [partition.as_json(offset=10)]
    with trial.step("abort a copy with its offsets", "TxnOffsetCommit", "EndTxn"):
        await copier.ask("begin")
        await stored(copier, target, [Record(record.value) for record in found])
        await copier.ask("send_offsets", group=group, offsets=offsets)
        await copier.ask("abort_transaction")
        equal(await copier.committed([partition]), [None], "committed offset")
    with trial.step(
        "commit a copy with its offsets", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"
    ):
        await copier.ask("begin")
        await stored(copier, target, [Record(record.value) for record in found])
        await copier.ask("send_offsets", group=group, offsets=offsets)
        await copier.ask("commit_transaction")
        # The marker may still be on its way to the partition of the group's offsets.
        await becomes(lambda: copier.committed([partition]), [10], "committed offset")
    with trial.step("read each record once from the copy", "Fetch"):
        reader = await trial.reader({Partition(target, 0): 0}, isolation="read_committed")
        copied = await read(reader, 10)
        equal([record.value for record in copied], [record.value for record in found], "values")


async def run_isolation(trial: Trial) -> None:
    topic = await trial.topic()
    plain = await trial.producer()
    name = trial.name("transactional-id")
    producer = await trial.producer(
        "transactions", transactional_id=name, transaction_timeout_ms=OPEN_MS
    )
    await in_transaction(producer, topic, b"kept", commit=True)
    await in_transaction(producer, topic, b"aborted", commit=False)
    await producer.ask("begin")
    await stored(producer, topic, [Record(b"open")])
    await stored(plain, topic, [Record(b"behind")])
    with trial.step("read with read_committed up to the open transaction", "Fetch"):
        committed = await trial.reader({Partition(topic, 0): 0}, isolation="read_committed")
        found = await committed.poll(4, QUIET_MS * 4)
        equal([record.value for record in found], [b"kept"], "values")
    with trial.step("read all of it with read_uncommitted", "Fetch"):
        reader = await trial.reader({Partition(topic, 0): 0}, isolation="read_uncommitted")
        found = await read(reader, 4)
        expected = [b"kept", b"aborted", b"open", b"behind"]
        equal([record.value for record in found], expected, "values")
    with trial.step("read the plain record once the open transaction is aborted", "Fetch"):
        await producer.ask("abort_transaction")
        (record,) = await read(committed, 1)
        equal(record.value, b"behind", "value")


NEEDS: Final = frozenset({"produce", "transactions"})
ALL: Final = (
    Scenario("transactions", "Transactions that commit", run_commit, NEEDS, quick=True),
    Scenario("aborts", "Aborted transactions, in both isolation levels", run_abort, NEEDS),
    Scenario("open-transactions", "The last stable offset", run_open, NEEDS),
    Scenario(
        "fencing", "A second producer with a transactional id", run_fencing, NEEDS | {"fencing"}
    ),
    Scenario(
        "copy",
        "Consume, transform, produce: offsets in the transaction",
        run_copy,
        NEEDS | {"send_offsets", "consume", "group"},
    ),
    Scenario("isolation", "Read isolation", run_isolation, frozenset({"consume", "isolation"})),
)
