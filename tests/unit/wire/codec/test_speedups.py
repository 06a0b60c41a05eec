"""What is quicker than in the library, and reads and writes the same bytes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kavka.compat_tests.raw.codec import schemas, stock_codec
from kavka.wire.apis import describe_configs, fetch
from kavka.wire.codec import private_copy
from kavka.wire.codec.frames import SpliceBuffer, encode_response
from support import messages


def writer_source(message_class: Any, version: int) -> str:
    source: str = message_class._struct.encode_into__optimized_context(version, True, True).source()
    return source


@pytest.mark.parametrize("name", stock_codec.message_names())
def test_every_message_of_the_library_is_read_and_written_as_it_does(name: str) -> None:
    """Of APIs that are not served, too: they will be. The served ones: `test_round_trips.py`."""
    message_class = private_copy.message_class(name)
    for version in {0, message_class.max_version // 2, message_class.max_version}:
        flexible = message_class.flexible_version_q(version)
        write = message_class._struct.compiled_encode_into(
            version, compact=flexible, tagged=flexible
        )
        read = message_class._struct.compiled_decode_from(
            version, compact=flexible, tagged=flexible, data_class=message_class
        )
        for seed in range(5):
            found = messages.values(schemas.schema(name), version, Random(seed))
            message = schemas.as_namespace(schemas.schema(name), found)
            body = stock_codec.encode(name, version, message)
            buffer = SpliceBuffer()
            write(message, buffer)
            assert whole(buffer) == body
            again, end = read(memoryview(body), 0)
            assert end == len(body)
            assert list(messages.differences(schemas.schema(name), found, again)) == []


def whole(buffer: SpliceBuffer) -> bytes:
    """What was written, with the records where they belong."""
    out, start = b"", 0
    for position, records in buffer.parts:
        out += bytes(buffer.buf[start:position]) + bytes(records)
        start = position
    return out + bytes(buffer.buf[start : buffer.pos])


def test_numbers_side_by_side_are_written_with_one_call() -> None:
    ours = writer_source(private_copy.message_class("ProduceResponse"), 9)
    assert ours.count("pack_into_ihqqq(buf, pos, ") == 1  # a partition's five, of a ready Struct


def test_the_code_of_an_array_is_written_once() -> None:
    ours = writer_source(private_copy.message_class("MetadataResponse"), 12)
    published = writer_source(stock_codec.message_class("MetadataResponse"), 12)
    assert ours.count(".is_internal") == 1
    assert published.count(".is_internal") == 1  # its other copy takes tuples
    assert len(ours.splitlines()) < len(published.splitlines()) / 2


def test_a_struct_without_tags_costs_no_call() -> None:
    ours = writer_source(private_copy.message_class("MetadataResponse"), 12)
    published = writer_source(stock_codec.message_class("MetadataResponse"), 12)
    assert published.count(".encode_into(") > 0
    assert ours.count(".encode_into(") == 0


def test_a_tagged_struct_of_defaults_is_left_out() -> None:
    """As Apache Kafka does (`test_wire_java.py`); the library writes it."""
    partition = fetch.PartitionResponse(
        0,
        diverging_epoch=fetch.EpochEndOffset(3, 4),
        current_leader=fetch.LeaderIdAndEpoch(),
        snapshot_id=fetch.SnapshotId(),
    )
    lone = fetch.PartitionResponse(0, current_leader=fetch.LeaderIdAndEpoch())
    answer = fetch.FetchResponse([fetch.TopicResponse("t", None, [partition, lone])])
    published = stock_codec.encode("FetchResponse", 12, answer)
    read, _ = stock_codec.decode("FetchResponse", 12, published)
    assert read.responses[0].partitions[0].tags == {
        "diverging_epoch",
        "current_leader",
        "snapshot_id",
    }

    body = b"".join(encode_response(fetch.API, 12, 0, answer))[9:]
    read, end = stock_codec.decode("FetchResponse", 12, body)
    assert end == len(body)
    first, second = read.responses[0].partitions
    assert first.tags == {"diverging_epoch"}
    assert first.diverging_epoch.end_offset == 4
    assert second.tags is None


def test_null_arrays_are_written_where_they_are_allowed() -> None:
    for version in (4, 12):
        partition = fetch.PartitionResponse(0, aborted_transactions=None, records=None)
        answer = fetch.FetchResponse([fetch.TopicResponse("t", None, [partition])])
        body = b"".join(encode_response(fetch.API, version, 0, answer))
        read, _ = stock_codec.decode("FetchResponse", version, body[9 if version > 11 else 8 :])
        assert read.responses[0].partitions[0].aborted_transactions is None
        assert read.responses[0].partitions[0].records is None


def test_answers_of_configs_keep_null_and_empty_apart() -> None:
    configs = [
        describe_configs.ConfigResponse("a", None),
        describe_configs.ConfigResponse("b", ""),
    ]
    answer = describe_configs.DescribeConfigsResponse(
        [describe_configs.ResourceResponse(2, "t", configs=configs)]
    )
    body = b"".join(encode_response(describe_configs.API, 4, 0, answer))[9:]
    read, _ = stock_codec.decode("DescribeConfigsResponse", 4, body)
    assert [config.value for config in read.results[0].configs] == [None, ""]
