"""Each unsafe habit of the library: what it does as published, and what Kavka's copy does."""

from __future__ import annotations

import struct
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.compat_tests.raw.codec import schemas, stock_codec
from kavka.compat_tests.raw.codec.batches import uvarint
from kavka.wire.apis import (
    delete_topics,
    describe_configs,
    describe_topic_partitions,
    fetch,
    metadata,
    offset_for_leader_epoch,
    produce,
    stop_replica,
)
from support import messages

VARINT_BYTES_MAX = 5
REFUSALS = (ValueError, IndexError, struct.error)
"""What a malformed body raises; UnicodeDecodeError is a ValueError."""


class Counted(bytes):
    """Bytes that count how many of them are looked at one by one, or copied out in slices."""

    looks = 0
    copied = 0

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        if isinstance(key, slice):
            self.copied += len(found)
        else:
            self.looks += 1
        return found


def mended(module: ModuleType, version: int, body: Any) -> Any:
    """Read by Kavka's copy."""
    return module.API.decoder(version)(body, 0)[0]


def stock(module: ModuleType, version: int, body: Any) -> Any:
    """Read by the library as it is published."""
    message_class = stock_codec.message_class(module.API.request_name)
    flexible = module.API.is_flexible(version)
    read = message_class._struct.compiled_decode_from(
        version, compact=flexible, tagged=flexible, data_class=message_class
    )
    return read(body, 0)[0]


def request_body(module: ModuleType, version: int, found: schemas.Values) -> bytes:
    """A request with these values and otherwise the schema's defaults."""
    name = module.API.request_name
    message = schemas.as_namespace(schemas.schema(name), found)
    return stock_codec.encode(name, version, message)


# -- lengths --------------------------------------------------------------------------------


def test_a_varint_ends_after_five_bytes() -> None:
    endless = b"\xff" * 10_000  # the library: time grows with the square of this
    looked_at = Counted(endless)
    with pytest.raises(IndexError):
        stock(produce, 9, looked_at)
    assert looked_at.looks >= len(endless)

    looked_at = Counted(endless)
    with pytest.raises(ValueError, match="varint"):
        mended(produce, 9, looked_at)
    assert looked_at.looks <= VARINT_BYTES_MAX


OVER_31_BITS = b"\xff\xff\xff\xff\x0f"


def test_a_length_over_31_bits_is_null() -> None:
    """As in Apache Kafka 4.3.1, which answers the second and the third."""
    with pytest.raises(ValueError, match="topic_data is null"):
        mended(produce, 9, memoryview(b"\0" + bytes(6) + OVER_31_BITS + bytes(50)))
    assert mended(metadata, 9, memoryview(OVER_31_BITS + b"\0\0\0\0")).topics is None
    tagged = mended(metadata, 9, memoryview(b"\0\0\0\0" + OVER_31_BITS))
    assert tagged.topics is None
    with pytest.raises(ValueError, match="longer than the request"):
        mended(metadata, 9, memoryview(b"\x80\x80\x80\x80\x08" + bytes(4)))


def test_an_array_longer_than_the_frame_is_refused_before_it_is_made() -> None:
    names = 5_000
    body = b"\xff\xff\x3f" + b"\x01" * names  # 1,048,574 names, of which 5,000 empty ones follow
    looked_at = Counted(body)
    with pytest.raises(IndexError):
        stock(delete_topics, 4, looked_at)
    assert looked_at.looks > names

    looked_at = Counted(body)
    with pytest.raises(ValueError, match="topic_names is longer than the request"):
        mended(delete_topics, 4, looked_at)
    assert looked_at.looks <= VARINT_BYTES_MAX


def test_fields_past_the_end_are_refused() -> None:
    records = b"r" * 61
    body = request_body(
        produce,
        3,
        {
            "acks": 1,
            "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": records}]}],
        },
    )
    cut = body[:-20]
    lost = stock(produce, 3, memoryview(cut))
    assert len(lost.topic_data[0].partition_data[0].records) == len(records) - 20

    with pytest.raises(ValueError, match="past the end"):
        mended(produce, 3, memoryview(cut))


KNOWN = messages.known()


@pytest.mark.parametrize(
    ("module", "version"), KNOWN, ids=[messages.title(*case) for case in KNOWN]
)
@settings(max_examples=3)
@given(rnd=st.randoms(use_true_random=False))
def test_truncated_requests_are_refused(module: ModuleType, version: int, rnd: Any) -> None:
    found = messages.values(schemas.schema(module.API.request_name), version, rnd)
    body = memoryview(request_body(module, version, found))
    for end in range(len(body)):
        with pytest.raises(REFUSALS):
            mended(module, version, body[:end])


@pytest.mark.parametrize("name", schemas.api_modules())
@settings(max_examples=30)
@given(rnd=st.randoms(use_true_random=False))
def test_damaged_requests_are_refused_or_read_and_nothing_else(name: str, rnd: Any) -> None:
    module = schemas.api_modules()[name]
    version = rnd.randint(module.API.lowest, module.API.highest)
    found = messages.values(schemas.schema(module.API.request_name), version, rnd)
    body = bytearray(request_body(module, version, found))
    for _ in range(min(rnd.randint(1, 4), len(body))):
        body[rnd.randrange(len(body))] = rnd.choice((0, 1, 0x7F, 0x80, 0xFF, rnd.randrange(256)))
    try:
        module.API.decoder(version)(memoryview(body), 0)
    except REFUSALS:
        pass


@pytest.mark.parametrize("name", schemas.api_modules())
@settings(max_examples=30)
@given(body=st.binary(max_size=80), version=st.integers(0, 18))
def test_garbage_is_refused_or_read_and_nothing_else(name: str, body: bytes, version: int) -> None:
    api = schemas.api_modules()[name].API
    try:
        api.decoder(min(max(version, api.lowest), api.highest))(memoryview(body), 0)
    except REFUSALS:
        pass


# -- null -----------------------------------------------------------------------------------


def test_null_where_the_schema_has_none_is_refused() -> None:
    null_array = struct.pack(">hhii", -1, 1, 1000, -1)  # Produce 3: topic_data is null
    assert stock(produce, 3, memoryview(null_array)).topic_data is None
    with pytest.raises(ValueError, match="topic_data is null"):
        mended(produce, 3, memoryview(null_array))

    null_string = struct.pack(">hhiih", -1, 1, 1000, 1, -1) + struct.pack(">i", 0)
    assert stock(produce, 3, memoryview(null_string)).topic_data[0].name is None
    with pytest.raises(ValueError, match="name is null"):
        mended(produce, 3, memoryview(null_string))


def test_null_within_an_array_that_may_be_null_itself_is_refused() -> None:
    resource = {"resource_type": 2, "resource_name": "t"}

    def body(keys: list[str] | None) -> memoryview:
        found = {"resources": [{**resource, "configuration_keys": keys}]}
        return memoryview(request_body(describe_configs, 1, found))

    assert mended(describe_configs, 1, body(None)).resources[0].configuration_keys is None
    null = memoryview(bytes(body([""])).replace(b"\0\0\0\x01\0\0", b"\0\0\0\x01\xff\xff"))
    assert stock(describe_configs, 1, null).resources[0].configuration_keys == [None]
    with pytest.raises(ValueError, match="null in configuration_keys"):
        mended(describe_configs, 1, null)


def test_a_struct_is_null_by_any_negative_byte() -> None:
    for marker in (b"\xff", b"\x81", b"\x80"):
        body = memoryview(b"\x01" + bytes(4) + marker + b"\0")
        assert mended(describe_topic_partitions, 0, body).cursor is None
    there = mended(
        describe_topic_partitions, 0, memoryview(b"\x01" + bytes(4) + b"\x7f" + b"\x02t" + bytes(6))
    )
    assert there.cursor.topic_name == "t"


def test_null_where_the_schema_has_it_is_read() -> None:
    assert mended(metadata, 1, memoryview(struct.pack(">i", -1))).topics is None
    body = request_body(metadata, 12, {"topics": [{"name": None, "topic_id": None}]})
    assert mended(metadata, 12, memoryview(body)).topics[0].name is None


# -- defaults -------------------------------------------------------------------------------


def test_a_list_that_a_version_lacks_is_not_shared_between_requests() -> None:
    body = memoryview(request_body(fetch, 4, {}))
    first = stock(fetch, 4, body)
    first.forgotten_topics_data.append("of the first")
    assert stock(fetch, 4, body).forgotten_topics_data == ["of the first"]
    first.forgotten_topics_data.clear()

    assert mended(fetch, 4, body).forgotten_topics_data == ()


def test_fields_that_a_version_lacks_read_as_their_default() -> None:
    request = mended(fetch, 4, memoryview(request_body(fetch, 4, {})))
    assert (request.session_id, request.session_epoch, request.rack_id) == (0, -1, "")


# -- tagged sections ------------------------------------------------------------------------


def fetch_with_tags(partitions: int) -> bytes:
    """Fetch 12 whose partitions have an unknown tag each."""
    body = request_body(
        fetch, 12, {"topics": [{"topic": "t", "partitions": [{"partition": 77}] * partitions}]}
    )
    whole = stock(fetch, 12, memoryview(body))
    assert len(whole.topics[0].partitions) == partitions
    partition = struct.pack(">i", 77) + struct.pack(">i", -1) + bytes(8) + struct.pack(">i", -1)
    start = body.index(partition)
    size = 4 + 4 + 8 + 4 + 8 + 4 + 1  # fields of a partition, then no tags
    tag = b"\x01\x63\x02\xab\xcd"  # one tag: number 99, two bytes
    tagged = b"".join(
        body[start + index * size : start + (index + 1) * size - 1] + tag
        for index in range(partitions)
    )
    return body[:start] + tagged + body[start + partitions * size :]


def test_tags_do_not_copy_the_rest_of_the_frame() -> None:
    partitions = 200
    body = Counted(fetch_with_tags(partitions))
    assert len(stock(fetch, 12, body).topics[0].partitions) == partitions
    assert body.copied > partitions * len(body) / 3

    body = Counted(fetch_with_tags(partitions))
    assert len(mended(fetch, 12, body).topics[0].partitions) == partitions
    assert body.copied < 100


def tags(*section: tuple[int, bytes], claimed_bytes: int | None = None) -> bytes:
    """A tagged section; `claimed_bytes` lies about the size of each."""
    out = bytes([len(section)])
    for number, content in section:
        out += bytes([number, len(content) if claimed_bytes is None else claimed_bytes]) + content
    return out


def fetch_15(section: bytes) -> memoryview:
    """Fetch 15 with this tagged section at its end."""
    return memoryview(request_body(fetch, 15, {})[:-1] + section)


CLUSTER_ID = 0
REPLICA_STATE = 1


def test_known_tags_are_read() -> None:
    state = struct.pack(">iq", 5, 6)
    request = mended(
        fetch, 15, fetch_15(tags((CLUSTER_ID, b"\x03me"), (REPLICA_STATE, state + b"\0")))
    )
    assert request.cluster_id == "me"
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (5, 6)


def test_the_size_of_a_known_tag_must_match_its_field() -> None:
    lies = fetch_15(tags((CLUSTER_ID, b"\x03me"), claimed_bytes=1))
    assert stock(fetch, 15, lies).cluster_id == "me"
    with pytest.raises(ValueError, match="past the end"):
        mended(fetch, 15, lies)


def test_a_tag_past_the_end_is_refused() -> None:
    cut = fetch_15(tags((99, b"ab"), claimed_bytes=9))
    assert stock(fetch, 15, cut).unknown_tags == {"_99": b"ab"}
    with pytest.raises(ValueError, match="tagged field past the end"):
        mended(fetch, 15, cut)


def test_unknown_tags_in_a_tagged_struct_are_skipped() -> None:
    state = struct.pack(">iq", 5, 6) + tags((42, b"later"))
    body = fetch_15(tags((REPLICA_STATE, state)))
    with pytest.raises(AssertionError):
        stock(fetch, 15, body)
    assert mended(fetch, 15, body).replica_state.replica_id == 5


def test_a_tag_of_another_version_is_refused() -> None:
    """As by Apache Kafka 4.3.1; tag 1 of a partition came with version 18 (KIP-1166)."""
    partition = {"partition": 77, "high_watermark": 5}
    topics = [{"topic_id": UUID(int=1), "partitions": [partition]}]
    newer = memoryview(request_body(fetch, 18, {"topics": topics}))
    assert mended(fetch, 18, newer).topics[0].partitions[0].high_watermark == 5
    assert stock(fetch, 15, newer).topics[0].partitions[0].unknown_tags
    with pytest.raises(ValueError, match="a tag of another version"):
        mended(fetch, 15, newer)


def test_an_endless_tagged_section_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 1000 tags"):
        mended(fetch, 15, fetch_15(b"\xff\xff\xff\xff\x07" + b"\x09\x00" * 10))


def test_known_tags_must_follow_the_schema() -> None:
    cut = fetch_15(tags((CLUSTER_ID, b"\x7fme")))
    with pytest.raises(ValueError, match="past the end"):
        mended(fetch, 15, cut)
    assert mended(fetch, 15, fetch_15(tags((CLUSTER_ID, b"\0")))).cluster_id is None


# -- how many there may be ------------------------------------------------------------------

ITEMS_MAX = 20_000


def deletion(names: int) -> memoryview:
    """DeleteTopics 4 of so many empty names."""
    return memoryview(uvarint(names + 1) + b"\x01" * names + bytes(4) + b"\0")


def test_a_request_of_the_most_items_is_read_and_one_more_is_refused() -> None:
    assert len(mended(delete_topics, 4, deletion(ITEMS_MAX)).topic_names) == ITEMS_MAX
    assert len(stock(delete_topics, 4, deletion(ITEMS_MAX + 1)).topic_names) == ITEMS_MAX + 1
    with pytest.raises(ValueError, match="too many items"):
        mended(delete_topics, 4, deletion(ITEMS_MAX + 1))


def test_what_controllers_send_may_have_more_items() -> None:
    """All partitions of a cluster may be in one request."""
    most = 300_000

    def stopping(topics: int) -> memoryview:
        head = struct.pack(">iiq", 1, 1, 1) + uvarint(topics + 1)
        return memoryview(head + b"\x01\x01\0" * topics + b"\0")

    assert len(mended(stop_replica, 3, stopping(most)).topic_states) == most
    with pytest.raises(ValueError, match="too many items"):
        mended(stop_replica, 3, stopping(most + 1))


def test_items_of_all_levels_are_counted_together() -> None:
    def body(partitions: int) -> memoryview:
        topic = b"\0\x01t" + struct.pack(">i", partitions) + bytes(8 * partitions)
        return memoryview(struct.pack(">ii", -1, 2) + topic * 2)

    def offsets_for(partitions: int) -> Any:
        return mended(offset_for_leader_epoch, 0, body(partitions)[4:])

    half = ITEMS_MAX // 2 - 1  # and a topic
    assert [len(topic.partitions) for topic in offsets_for(half).topics] == [half, half]
    with pytest.raises(ValueError, match="too many items"):
        offsets_for(half + 1)


def test_numbers_count_a_third() -> None:
    def forgotten(numbers: int) -> Any:
        head = struct.pack(">iiiibiii", -1, 0, 0, 0, 0, 0, -1, 0) + struct.pack(">i", 1)
        topic = b"\0\x01t" + struct.pack(">i", numbers) + bytes(4 * numbers)
        return mended(fetch, 7, memoryview(head + topic)).forgotten_topics_data[0].partitions

    most = 3 * (ITEMS_MAX - 1) + 2  # and a topic
    assert len(forgotten(most)) == most
    with pytest.raises(ValueError, match="too many items"):
        forgotten(most + 1)


TAGS_MAX = 1000


def test_a_section_has_only_so_many_tags() -> None:
    def body(count: int) -> memoryview:
        return fetch_15(uvarint(count) + b"\x63\0" * count)

    mended(fetch, 15, body(TAGS_MAX))
    with pytest.raises(ValueError, match="more than 1000 tags"):
        mended(fetch, 15, body(TAGS_MAX + 1))


def test_tags_count_as_items() -> None:
    def body(topics: int) -> memoryview:
        topic = b"\x01" + uvarint(TAGS_MAX) + b"\x63\0" * TAGS_MAX
        return memoryview(uvarint(topics + 1) + topic * topics + bytes(4))

    most = ITEMS_MAX // (TAGS_MAX + 1)
    assert len(mended(metadata, 9, body(most)).topics) == most
    with pytest.raises(ValueError, match="too many items"):
        mended(metadata, 9, body(most + 1))


def test_an_array_is_limited_by_the_least_size_of_its_items() -> None:
    partitions = 50
    topic = b"\0\x01t" + struct.pack(">i", partitions)
    body = memoryview(struct.pack(">i", 1) + topic + bytes(8 * partitions))
    assert len(mended(offset_for_leader_epoch, 0, body).topics[0].partitions) == partitions
    looked_at = Counted(bytes(body[:-1]))
    with pytest.raises(ValueError, match="partitions is longer than the request"):
        mended(offset_for_leader_epoch, 0, looked_at)


# -- text -----------------------------------------------------------------------------------


def test_invalid_utf_8_reads_as_replacement_characters() -> None:
    body = memoryview(struct.pack(">ih", 1, 3) + b"a\xff\xfe")
    with pytest.raises(UnicodeDecodeError):
        stock(metadata, 1, body)
    assert mended(metadata, 1, body).topics[0].name == "a\ufffd\ufffd"


def test_a_compact_string_is_no_longer_than_another_can_be() -> None:
    """Apache Kafka's generated readers: "string field name had invalid length"."""

    def body(length: int) -> memoryview:
        return memoryview(b"\x02" + uvarint(length + 1) + b"t" * length + bytes(5))

    most = 0x7FFF
    assert mended(metadata, 9, body(most)).topics[0].name == "t" * most
    assert stock(metadata, 9, body(most + 1)).topics[0].name == "t" * (most + 1)
    with pytest.raises(ValueError, match="string too long"):
        mended(metadata, 9, body(most + 1))


# -- records --------------------------------------------------------------------------------


def test_records_are_views_of_the_frame() -> None:
    records = b"r" * 100
    found = {"topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": records}]}]}
    frame = bytearray(request_body(produce, 9, found))
    copied = stock(produce, 9, memoryview(frame)).topic_data[0].partition_data[0].records
    assert isinstance(copied, bytes)

    view = mended(produce, 9, memoryview(frame)).topic_data[0].partition_data[0].records
    assert isinstance(view, memoryview)
    assert view.obj is frame
    assert view == records


def test_null_and_empty_records_stay_apart() -> None:
    for version in (3, 9):
        parts = [{"index": 0, "records": None}, {"index": 1, "records": b""}]
        found = {"topic_data": [{"name": "t", "partition_data": parts}]}
        body = memoryview(request_body(produce, version, found))
        null, empty = mended(produce, version, body).topic_data[0].partition_data
        assert null.records is None
        assert empty.records == b""
