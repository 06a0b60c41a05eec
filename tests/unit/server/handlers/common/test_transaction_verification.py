"""Writing in a transaction: the coordinator is asked first, and nothing overtakes what waits.

What Apache Kafka answers to the same: `tests/differential/sequences`.
"""

from __future__ import annotations

from functools import partial

import pytest

from kavka.compat_tests.raw.codec.batches import build
from kavka.server.auth.authorizer import Operation
from kavka.server.handlers.common.transaction_verification import guard_without_waiting
from kavka.server.replica.partition_state import LeaderAndIsrState
from kavka.server.request.context import COPIED_BYTES_MAX
from kavka.wire.errors import ErrorCode as Code
from kavka.wire.record_batches import read_header
from support.denied import Denied
from support.logs import batch
from support.memory_broker import MemoryBroker, producing, scenario
from support.memory_network import Closed, until
from support.memory_transactions import (
    PLACE,
    Outcome,
    Transactor,
    committed,
    hold,
    outcomes,
    release,
    write_markers,
)
from support.virtual import run_until_idle

OTHER = ("t", 1)
ONE_PARTITION = "transaction.state.log.num.partitions=1"
TOPICS = {"t": 2}
VERSIONS = range(3, 14)
ADDS_SINCE = 12
NOT_ADDED = "Partition was not added to the transaction"
UNTOLD = "Unable to verify the partition has been added to the transaction. Underlying error: "


def end_of(broker: MemoryBroker, place: tuple[str, int] = PLACE) -> int:
    return broker.replica(*place).log.end_offset


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics=TOPICS)
async def test_a_transaction_in_every_version(broker: MemoryBroker, version: int) -> None:
    producer = await Transactor(broker, version=version).init()
    if version < ADDS_SINCE:
        code, message = {
            11: (Code.TRANSACTION_ABORTABLE, None),
        }.get(version, (Code.INVALID_TXN_STATE, NOT_ADDED if version >= 8 else None))
        assert await producer.write() == Outcome(code, -1, message, -1)
        assert await producer.add() == [Code.NONE]
    for number in range(3):
        assert (await producer.write(values=[b"%d" % number])).offset == number
    assert await committed(broker) == []
    assert await producer.end(commit=True) == Code.NONE
    await run_until_idle()
    assert await committed(broker) == [b"0", b"1", b"2"]
    if version < ADDS_SINCE:
        assert await producer.add() == [Code.NONE]
    assert (await producer.write(values=[b"gone"])).code == Code.NONE
    assert await producer.end(commit=False) == Code.NONE
    await run_until_idle()
    assert await committed(broker) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("version", [11, 12])
@scenario(ONE_PARTITION, topics=TOPICS)
async def test_nothing_is_written_before_the_coordinator_is_sure(
    broker: MemoryBroker, version: int
) -> None:
    producer = await Transactor(broker, version=version).init()
    hold(broker)
    if version < ADDS_SINCE:
        producer.client.send("AddPartitionsToTxn", 3, **producer.adding())
        producer.client = broker.connect()
    answer = producer.begin()
    await run_until_idle()
    assert not answer.done() and end_of(broker) == 0
    release(broker)
    await until(answer.done, "the answer")
    assert outcomes(answer.result()) == [Outcome(Code.NONE, 0, None, 0)]
    assert broker.replica().log.producers.get(producer.now.id) is not None


@scenario(ONE_PARTITION, topics=TOPICS)
async def test_a_later_produce_of_the_connection_does_not_overtake(broker: MemoryBroker) -> None:
    producer = await Transactor(broker).init()
    hold(broker)
    first = producer.begin()
    producer.sequences[PLACE] = 1
    later = [
        producer.begin(),
        producer.client.send("Produce", 9, **producing({PLACE: build()})),
        producer.client.send("Metadata", 12, topics=None),
    ]
    producer.client.tell("Produce", 9, **producing({OTHER: build()}, acks=0))
    await run_until_idle()
    assert not any(answer.done() for answer in (first, *later))
    assert end_of(broker) == end_of(broker, OTHER) == 0
    release(broker)
    await until(lambda: end_of(broker, OTHER), "the last one is written")
    offsets = [outcomes(answer.result())[0].offset for answer in (first, *later[:2])]
    assert offsets == [0, 1, 2]


@scenario(ONE_PARTITION, topics=TOPICS)
async def test_others_need_not_wait(broker: MemoryBroker) -> None:
    producer = await Transactor(broker).init()
    hold(broker)
    answer = producer.begin()
    await run_until_idle()
    broker.client = broker.connect()
    assert (await broker.produce(build())).base_offset == 0
    release(broker)
    await until(answer.done, "the answer")
    assert outcomes(answer.result())[0].offset == 3


@pytest.mark.parametrize("protocol", [0, 2])
@scenario(ONE_PARTITION, topics=TOPICS)
async def test_a_marker_in_between_takes_the_guard_away(
    broker: MemoryBroker, protocol: int
) -> None:
    """Else the batch would begin a transaction that is never ended."""
    producer = await Transactor(broker).init()
    hold(broker)
    answer = producer.begin(PLACE, OTHER)
    await run_until_idle()
    ending = producer.now._replace(epoch=producer.now.epoch + 1)
    received = await write_markers(
        broker, ending, PLACE, commit=False, version=2, protocol=protocol
    )
    assert received == [Code.NONE]
    release(broker)
    await until(answer.done, "the answer")
    first, second = outcomes(answer.result())
    assert (first.code, second.code) == (Code.INVALID_PRODUCER_EPOCH, Code.NONE)


@scenario(ONE_PARTITION, topics=TOPICS)
async def test_so_does_a_marker_of_the_same_epoch(broker: MemoryBroker) -> None:
    producer = await Transactor(broker, version=11).init()
    hold(broker)
    producer.client.send("AddPartitionsToTxn", 3, **producer.adding())
    producer.client = broker.connect()
    answer = producer.begin()
    await run_until_idle()
    assert await write_markers(broker, producer.now, PLACE, commit=False) == [Code.NONE]
    release(broker)
    await until(answer.done, "the answer")
    assert outcomes(answer.result()) == [Outcome(Code.INVALID_TXN_STATE, -1, None, 0)]
    assert end_of(broker) == 1, "the marker alone"


@scenario(ONE_PARTITION, topics=TOPICS)
async def test_another_leads_when_the_answer_comes(broker: MemoryBroker) -> None:
    producer = await Transactor(broker).init()
    hold(broker)
    answer = producer.begin()
    await run_until_idle()
    replica = broker.replica()
    now = replica.partition
    now.follow(
        LeaderAndIsrState(1, 2, now.leader_epoch + 1, (1, 2), now.partition_epoch + 1, (1, 2))
    )
    release(broker)
    await until(answer.done, "the answer")
    assert outcomes(answer.result())[0].code == Code.NOT_LEADER_OR_FOLLOWER
    assert end_of(broker) == 0


@scenario(ONE_PARTITION, topics=TOPICS)
async def test_the_topic_is_gone_when_the_answer_comes(broker: MemoryBroker) -> None:
    producer = await Transactor(broker).init()
    hold(broker)
    answer = producer.begin()
    await run_until_idle()
    await broker.connect().ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=5000)
    release(broker)
    await until(answer.done, "the answer")
    assert outcomes(answer.result())[0].code == Code.UNKNOWN_TOPIC_OR_PARTITION


SIZES = pytest.mark.parametrize("times", [1, 2 * COPIED_BYTES_MAX // len(b"first")])


@SIZES
@scenario(ONE_PARTITION, topics=TOPICS)
async def test_what_came_is_written_though_memory_is_used_again(
    broker: MemoryBroker, times: int
) -> None:
    producer = await Transactor(broker).init()
    hold(broker)
    records = {PLACE: producer.batch(values=[b"first" * times])}
    answer = producer.client.send("Produce", 12, **producer.producing(records))
    await write_much(broker, times)
    release(broker)
    await until(answer.done, "the answer")
    assert [record.value for record in await broker.read_all()] == [b"first" * times]
    records = {PLACE: producer.batch(values=[b"then"], sequence=1)}
    assert [outcome.code for outcome in await producer.write_all(records)] == [Code.NONE]
    assert broker.parts.arenas.in_use_bytes == 0


async def write_much(broker: MemoryBroker, times: int) -> None:
    """Have memory used by others."""
    for _ in range(3):
        broker.client = broker.connect()
        others = bytes(batch([b"other" * times]))
        assert (await broker.produce(others, *OTHER)).error_code == Code.NONE


@SIZES
@scenario(ONE_PARTITION, topics=TOPICS)
async def test_what_a_producer_sent_before_it_hung_up_is_written_as_it_was(
    broker: MemoryBroker, times: int
) -> None:
    """While the coordinator is asked."""
    producer = await Transactor(broker).init()
    producer.client = broker.connect()
    hold(broker)
    records = {PLACE: producer.batch(values=[b"first" * times])}
    producer.client.send("Produce", 12, **producer.producing(records))
    await run_until_idle()
    producer.client.close()
    await run_until_idle()
    await write_much(broker, times)
    release(broker)
    await run_until_idle()
    assert [record.value for record in await broker.read_all(*OTHER)] == [b"other" * times] * 3
    assert [record.value for record in await broker.read_all()] == [b"first" * times]
    assert broker.parts.arenas.in_use_bytes == 0


@scenario(ONE_PARTITION, topics=TOPICS)
async def test_without_an_answer_too(broker: MemoryBroker) -> None:
    producer = await Transactor(broker).init()
    hold(broker)
    producer.client.tell("Produce", 12, **producer.producing({PLACE: producer.batch()}, acks=0))
    await run_until_idle()
    assert end_of(broker) == 0
    release(broker)
    await until(lambda: end_of(broker) == 1, "it is written")
    hold(broker)
    producer.client.tell(
        "Produce", 12, **producer.producing({OTHER: producer.batch(sequence=5)}, acks=0)
    )
    await run_until_idle()
    assert not producer.client.is_closed
    release(broker)
    await producer.client.closed()


@scenario(ONE_PARTITION, topics=TOPICS)
async def test_a_stop_does_not_wait_for_it(broker: MemoryBroker) -> None:
    producer = await Transactor(broker).init()
    hold(broker)
    answer = producer.begin()
    await run_until_idle()
    await broker.stop()
    with pytest.raises(Closed):
        answer.result()
    await broker.revive()


# -- the transaction before -----------------------------------------------------------------


async def busy(broker: MemoryBroker, version: int = 12) -> Transactor:
    """A producer whose transaction can't be completed: a marker in the other partition waits."""
    producer = await Transactor(broker, version=version).init()
    if version < ADDS_SINCE:
        await producer.add(PLACE, OTHER)
    assert {
        outcome.code
        for outcome in await producer.write_all(
            {place: producer.batch(place) for place in (PLACE, OTHER)}
        )
    } == {Code.NONE}
    producer.sequences = {PLACE: 1, OTHER: 1}
    hold(broker, *OTHER)
    assert await producer.end(commit=True) == Code.NONE
    await run_until_idle()
    return producer


@scenario(topics=TOPICS)
async def test_a_newer_producer_is_kept_waiting_while_its_last_transaction_is_completed(
    broker: MemoryBroker,
) -> None:
    producer = await busy(broker)
    answer = producer.begin()
    await broker.advance(19)
    release(broker, *OTHER)
    await run_until_idle()
    assert not answer.done()
    await broker.advance(1)
    await until(answer.done, "the answer")
    assert outcomes(answer.result())[0].code == Code.NONE


@scenario(topics=TOPICS)
async def test_but_not_for_long(broker: MemoryBroker) -> None:
    producer = await busy(broker)
    answer = producer.begin()
    await broker.advance(99)
    assert not answer.done()
    await broker.advance(1)
    assert outcomes(answer.result()) == [Outcome(Code.CONCURRENT_TRANSACTIONS, -1, None, -1)]
    release(broker, *OTHER)
    await run_until_idle()
    assert (await producer.write()).code == Code.NONE


@scenario(
    "add.partitions.to.txn.retry.backoff.ms=10",
    "add.partitions.to.txn.retry.backoff.max.ms=1000",
    "request.timeout.ms=30",
    topics=TOPICS,
)
async def test_nor_longer_than_a_request_may_take(broker: MemoryBroker) -> None:
    producer = await busy(broker)
    answer = producer.begin()
    await broker.advance(29)
    assert not answer.done()
    await broker.advance(1)
    assert outcomes(answer.result())[0].code == Code.CONCURRENT_TRANSACTIONS
    release(broker, *OTHER)


@scenario(topics=TOPICS)
async def test_an_older_producer_is_answered_at_once(broker: MemoryBroker) -> None:
    producer = await busy(broker, 11)
    expected = UNTOLD + "CONCURRENT_TRANSACTIONS"
    assert await producer.write() == Outcome(Code.NOT_ENOUGH_REPLICAS, -1, expected, -1)
    release(broker, *OTHER)


# -- who may not ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", [9, 11, 12])
@scenario(topics=TOPICS)
async def test_without_a_coordinator(broker: MemoryBroker, version: int) -> None:
    producer = Transactor(broker, version=version)
    producer.now = producer.now._replace(id=5, epoch=0)
    expected = Outcome(Code.NOT_ENOUGH_REPLICAS, -1, UNTOLD + "NOT_COORDINATOR", -1)
    assert await producer.write() == expected


@pytest.mark.parametrize("version", [9, 11, 12])
@scenario(topics=TOPICS)
async def test_fenced(broker: MemoryBroker, version: int) -> None:
    """By the coordinator, and by the log where the newer epoch has written."""
    producer = await Transactor(broker, version=version).init()
    newer = await Transactor(broker, version=version).init()
    assert newer.now.epoch > producer.now.epoch
    fenced = Outcome(Code.INVALID_PRODUCER_EPOCH, -1, None, -1)
    assert await producer.write() == fenced
    if version < ADDS_SINCE:
        await newer.add()
    assert (await newer.write()).code == Code.NONE
    assert await producer.write() == fenced
    assert end_of(broker) == 1


@scenario(topics=TOPICS)
async def test_an_unknown_producer(broker: MemoryBroker) -> None:
    producer = await Transactor(broker).init()
    assert (await producer.write(id=producer.now.id + 1)).code == Code.INVALID_PRODUCER_ID_MAPPING
    mixed = {PLACE: producer.batch(), OTHER: producer.batch(OTHER, id=producer.now.id + 1)}
    received = await producer.write_all(mixed)
    assert {(outcome.code, outcome.message) for outcome in received} == {
        (
            Code.INVALID_PRODUCER_ID_MAPPING,
            "Transactional records contained more than one producer ID",
        )
    }
    assert end_of(broker) == end_of(broker, OTHER) == 0


@scenario(topics=TOPICS)
async def test_each_partition_has_its_own_answer(broker: MemoryBroker) -> None:
    producer = await Transactor(broker, version=11).init()
    assert await producer.add(PLACE) == [Code.NONE]
    nowhere = ("nowhere", 0)
    plain = ("t", 1)
    found = await producer.write_all({PLACE: producer.batch(), nowhere: producer.batch(nowhere)})
    assert [outcome.code for outcome in found] == [Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION]
    producer.sequences[PLACE] = 1
    found = await producer.write_all({PLACE: producer.batch(), plain: bytes(build())})
    assert [outcome.code for outcome in found] == [Code.NONE, Code.NONE], "not all is transactional"


@scenario(topics=TOPICS)
async def test_authorization_of_the_transactional_id(broker: MemoryBroker) -> None:
    producer = await Transactor(broker).init()
    broker.parts.authorizer = Denied((Operation.WRITE, "tx"))
    assert (await producer.write()).code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    broker.parts.authorizer = Denied((Operation.WRITE, "t"))
    assert (await producer.write()).code == Code.TOPIC_AUTHORIZATION_FAILED
    values = {**producer.producing({PLACE: producer.batch()}), "transactional_id": None}
    (received,) = outcomes(await producer.client.ask("Produce", 9, **values))
    assert received.code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@scenario("transaction.partition.verification.enable=false", topics=TOPICS)
async def test_older_producers_are_not_asked_for_where_that_is_off(broker: MemoryBroker) -> None:
    producer = await Transactor(broker, version=11).init()
    assert (await producer.write()).code == Code.NONE
    newer = await Transactor(broker, "newer").init()
    assert (await newer.write(id=newer.now.id + 1)).code == Code.INVALID_PRODUCER_ID_MAPPING
    assert (await newer.write()).code == Code.NONE


@scenario(topics=TOPICS)
async def test_newer_producers_begin_with_0(broker: MemoryBroker) -> None:
    """Each transaction has an epoch, and an epoch begins with 0, known or not (KIP-890)."""
    producer = await Transactor(broker).init()
    assert (await producer.write(sequence=3)).code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await producer.write()).code == Code.NONE
    older = await Transactor(broker, "older", 11).init()
    await older.add()
    assert (await older.write(sequence=3)).code == Code.NONE


@scenario(topics=TOPICS)
async def test_a_compressed_batch_is_opened_where_its_topic_asks_for_it(
    broker: MemoryBroker,
) -> None:
    await broker.create("z", configs={"compression.type": "gzip"})
    producer = await Transactor(broker).init()
    place = ("z", 0)
    values = [b"v" * 1000] * 100
    assert (await producer.write(place, values)).code == Code.NONE
    assert await producer.end(commit=True) == Code.NONE
    await run_until_idle()
    assert await committed(broker, place) == values


# -- at once ------------------------------------------------------------------------------


@scenario(topics=TOPICS)
async def test_what_was_added_before_is_confirmed_at_once(broker: MemoryBroker) -> None:
    producer = await Transactor(broker, version=11).init()
    header = read_header(producer.batch())
    replica = broker.replica(*PLACE)
    guard = partial(guard_without_waiting, broker.parts, replica)
    assert guard(producer.name, 11, header) is None, "not added"
    assert await producer.add(OTHER) == [Code.NONE]
    assert guard(producer.name, 11, header) is None, "another one was"
    assert await producer.add() == [Code.NONE]
    confirmed = guard(producer.name, 11, header)
    assert confirmed is not None
    assert replica.log.producers.verifications.holds(header.producer_id, confirmed)
    assert guard(producer.name, ADDS_SINCE, header) is None, "to be added, not to be confirmed"
    assert guard("nobody's", 11, header) is None
    assert guard(producer.name, 11, header._replace(producer_id=-1)) is None
    assert guard(producer.name, 11, header._replace(producer_epoch=7)) is None
    assert await producer.end(commit=True) == Code.NONE
    await run_until_idle()
    assert guard(producer.name, 11, header) is None, "it is over"


@scenario("transaction.partition.verification.enable=false", topics=TOPICS)
async def test_where_nothing_is_verified_nothing_is_confirmed(broker: MemoryBroker) -> None:
    producer = await Transactor(broker, version=11).init()
    assert await producer.add() == [Code.NONE]
    replica, header = broker.replica(*PLACE), read_header(producer.batch())
    assert guard_without_waiting(broker.parts, replica, producer.name, 11, header) is None


@pytest.mark.parametrize("knows_id", [False, True])
@scenario(ONE_PARTITION, topics=TOPICS)
async def test_strangers_that_make_up_producers_are_no_harm_to_others(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, knows_id: bool
) -> None:
    """An INVALID_TXN_STATE would be fatal for the producer that waits."""
    monkeypatch.setattr("kavka.log.txn_guards.PENDING_MAX", 5)
    producer = await Transactor(broker).init()
    hold(broker)
    waiting = producer.begin()
    await run_until_idle()
    assert not waiting.done()
    for number in range(50):
        stranger = Transactor(broker, "tx" if knows_id else "nobody's")
        stranger.client = broker.connect()
        stranger.now = producer.now._replace(id=producer.now.id + number, epoch=producer.now.epoch)
        if number == 0:  # the id of the one that waits
            stranger.name = "nobody's"
        assert (await stranger.write()).code == Code.INVALID_PRODUCER_ID_MAPPING
    release(broker)
    await until(waiting.done, "the answer")
    assert outcomes(waiting.result()) == [Outcome(Code.NONE, 0, None, 0)]
