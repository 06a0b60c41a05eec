"""Batches that are recompressed: every byte of their records is kept, and their header is checked
first. kafka-python reads what is stored; what Apache Kafka does with the same
is asked by tests/codecs."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.compat_tests.raw.codec.batches import CODECS, build, field, patch, read
from kavka.wire.compression import Codec
from kavka.wire.errors import ErrorCode as Code
from support.codec_batches import COUNT, LIES, ODD, RECORDS, in_form, promising
from support.codec_forms import GZIP, LZ4, SNAPPY, ZSTD, lz4_two, zstd_frame
from support.memory_broker import MemoryBroker, producing, scenario
from support.stored import LARGE, MANY, SMALL, bare, stored

KINDS = {"small": SMALL, "large": LARGE, "many": MANY}
TYPES = ("uncompressed", "gzip", "snappy", "lz4", "zstd")
FORMS = {
    f"{codec.name.lower()} {name}": (codec, forms[name])
    for codec, forms, names in (
        (Codec.GZIP, GZIP, ("two members", "sync flushes", "all fields of a header")),
        (Codec.SNAPPY, SNAPPY, ("two streams", "blocks of 100 bytes", "of aiokafka")),
        (Codec.LZ4, LZ4, ("many small blocks", "all checksums and the size", "of aiokafka")),
        (
            Codec.ZSTD,
            ZSTD,
            ("two frames", "a frame for every 40 bytes", "skippable frames everywhere", "flushes"),
        ),
    )
    for name in names
}


def packed_otherwise(batch: bytearray, compression_type: str) -> bytearray:
    """A batch of these records in a codec that a topic of this type does not store."""
    if compression_type == "gzip":
        return in_form(batch, Codec.ZSTD, zstd_frame)
    return in_form(batch, Codec.GZIP, GZIP["of Python's gzip"])


async def topic_of(broker: MemoryBroker, compression_type: str, partitions: int = 1) -> None:
    await broker.create("t", partitions, {"compression.type": compression_type})


async def produced(broker: MemoryBroker, batches: list[bytearray]) -> list[Any]:
    """The answers for a request with one batch for each partition."""
    places = {("t", index): batch for index, batch in enumerate(batches)}
    answer = await broker.ask("Produce", 9, **producing(places))
    return [partition.error_code for partition in answer.responses[0].partition_responses]


@pytest.mark.parametrize("compression_type", [*TYPES, "producer"])
@scenario(topics={})
async def test_many_batches_of_a_request_are_unchanged(
    broker: MemoryBroker, compression_type: str
) -> None:
    """Of each codec, little and much, twice."""
    sent = [(kind, codec) for kind in KINDS for codec in CODECS]
    expected = {kind: bare(build(records)) for kind, records in KINDS.items()}
    await topic_of(broker, compression_type, len(sent))
    batches = [build(KINDS[kind], codec=codec) for kind, codec in sent]
    for _ in range(2):
        assert await produced(broker, batches) == [Code.NONE] * len(sent)
    for index, (kind, _) in enumerate(sent):
        found = await stored(broker, partition=index)
        assert [field(batch, "base_offset") for batch in found] == [0, len(KINDS[kind])]
        assert found[0][16:] == found[1][16:]
        assert bare(found[1]) == expected[kind]


@pytest.mark.parametrize("compression_type", TYPES)
@pytest.mark.parametrize("kind", KINDS)
@scenario(topics={})
async def test_records_of_every_compressed_form_are_unchanged(
    broker: MemoryBroker, kind: str, compression_type: str
) -> None:
    """Also those that kafka-python does not read: it is given the records in another codec."""
    plain = build(KINDS[kind])
    expected = bare(plain)
    sent = {
        name: in_form(plain, codec, encode)
        for name, (codec, encode) in FORMS.items()
        if codec.name.lower() != compression_type
    }
    await topic_of(broker, compression_type, len(sent))
    assert await produced(broker, list(sent.values())) == [Code.NONE] * len(sent)
    for index in range(len(sent)):
        [found] = await stored(broker, partition=index)
        assert bare(found) == expected


@pytest.mark.parametrize("compression_type", TYPES)
@scenario(topics={})
async def test_batches_that_contradict_their_header_are_refused(
    broker: MemoryBroker, compression_type: str
) -> None:
    """Sent in another codec than the topic's; from gzip, lz4 or zstd to none, and from none."""
    sent = [packed_otherwise(promising(records), compression_type) for records in LIES.values()]
    if compression_type != "uncompressed":
        sent += [promising(records) for records in LIES.values()]
    whole = promising(bytes(build(RECORDS)[61:]))
    if compression_type != "lz4":
        sent.append(in_form(whole, Codec.LZ4, lz4_two))
    await topic_of(broker, compression_type, len(sent))
    codes = await produced(broker, sent)
    assert codes == [Code.INVALID_RECORD] * len(sent)
    for index in range(len(sent)):
        assert await stored(broker, partition=index) == []
    again = await produced(broker, [whole] * len(sent))
    assert again == [Code.NONE] * len(sent), "others are taken"


@pytest.mark.parametrize("name", LIES)
@scenario(topics={})
async def test_they_are_refused_in_a_thread_too(broker: MemoryBroker, name: str) -> None:
    """As the batches before it take all that is done at once."""
    await topic_of(broker, "gzip", 20)
    batches = [build(LARGE)] * 19 + [in_form(promising(LIES[name]), Codec.ZSTD, zstd_frame)]
    codes = await produced(broker, batches)
    assert codes == [Code.NONE] * 19 + [Code.INVALID_RECORD]


@pytest.mark.parametrize("compression_type", TYPES)
@pytest.mark.parametrize("name", ODD)
@scenario(topics={})
async def test_offset_deltas_that_are_not_consecutive_are_replaced(
    broker: MemoryBroker, name: str, compression_type: str
) -> None:
    """As Apache Kafka does, for the sake of old clients; else readers would pass records over."""
    await topic_of(broker, compression_type)
    for round_ in range(2):
        batch = packed_otherwise(promising(ODD[name]), compression_type)
        assert (await broker.produce(batch)).error_code == Code.NONE
        found = await stored(broker)
        assert [record.offset for record in read(found[-1])] == list(
            range(round_ * COUNT, (round_ + 1) * COUNT)
        )
        values = [record.value for record in read(found[-1])]
        assert values == [record.value for record in RECORDS]


@pytest.mark.parametrize("name", ODD)
@scenario(topics={})
async def test_such_deltas_are_refused_where_a_batch_is_not_rewritten(
    broker: MemoryBroker, name: str
) -> None:
    """As Apache Kafka 4.3.1 does, which does not read what it would need; uncompressed ones it
    leaves alone."""
    configs = {"compression.type": "producer", "cleanup.policy": "compact"}
    await broker.create("t", configs=configs)
    batch = in_form(promising(ODD[name]), Codec.ZSTD, zstd_frame)
    assert (await broker.produce(batch)).error_code == Code.UNKNOWN_SERVER_ERROR
    assert await stored(broker) == []
    assert (await broker.produce(promising(ODD[name]))).error_code == Code.NONE


@pytest.mark.parametrize("compression_type", TYPES)
@scenario(topics={})
async def test_a_wrong_max_timestamp_is_corrected(
    broker: MemoryBroker, compression_type: str
) -> None:
    """Where a batch is opened anyway."""
    await topic_of(broker, compression_type)
    whole = packed_otherwise(promising(bytes(build(RECORDS)[61:])), compression_type)
    newest = field(whole, "max_timestamp")
    assert (await broker.produce(patch(whole, max_timestamp=newest + 1000))).error_code == Code.NONE
    [found] = await stored(broker)
    assert (
        field(found, "max_timestamp") == newest == max(record.timestamp for record in read(found))
    )
