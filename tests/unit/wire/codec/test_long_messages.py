"""Messages that are read and written in slices: as by the quick reader and writer, and no slice is
long."""

from __future__ import annotations

import struct
from collections import defaultdict
from random import Random
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.compat_tests.raw.codec import schemas, stock_codec
from kavka.compat_tests.raw.codec.wire_client import plain
from kavka.wire.api import Api
from kavka.wire.apis import (
    consumer_group_describe,
    describe_groups,
    find_coordinator,
    leave_group,
    list_groups,
    offset_fetch,
    sync_group,
)
from kavka.wire.codec import long_messages
from kavka.wire.codec.frames import encode_response
from kavka.wire.codec.long_messages import BYTES_AN_ITEM, ITEMS_PER_STEP, SLICE_BYTES
from kavka.wire.error_counts import error_counter
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import Steps
from support import messages
from support.steps import run_and_look

COUNTS = st.lists(st.integers(0, 12), max_size=4)
KNOWN = messages.known()
EACH_VERSION = pytest.mark.parametrize(
    ("module", "version"), KNOWN, ids=[messages.title(*case) for case in KNOWN]
)
CHANCE = st.randoms(use_true_random=False)
FEW = settings(max_examples=4)
REFUSALS = (ValueError, IndexError, struct.error)


def run(work: Steps[Any]) -> tuple[Any, int]:
    """The result, and the number of pauses."""
    result, pauses, _ = run_and_look(work)
    return result, pauses


@pytest.fixture
def a_pause_an_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_messages, "SLICE_BYTES", 1)
    monkeypatch.setattr(long_messages, "_decoders", {})
    monkeypatch.setattr(long_messages, "_encoders", {})


def items(fields: Any, version: int, found: schemas.Values) -> int:
    """Items of all lists in these values; numbers are read all at once."""
    count = 0
    for field in fields:
        value = found.get(field.name)
        if value is None or field.tag is not None:
            continue
        if field.is_struct_array():
            count += sum(1 + items(field.fields.values(), version, item) for item in value)
        elif field.is_array():
            count += 0 if field.array_of.is_batchable() else len(value)
        elif field.is_struct():
            count += items(field.fields.values(), version, value)
    return count


# -- requests -------------------------------------------------------------------------------


def request(api: Api, version: int, rnd: Random) -> tuple[schemas.Values, bytes]:
    """Values, and the body in which the library writes them."""
    schema = schemas.schema(api.request_name)
    found = messages.values(schema, version, rnd)
    return found, stock_codec.encode(api.request_name, version, schemas.as_namespace(schema, found))


@EACH_VERSION
@FEW
@given(rnd=CHANCE)
@pytest.mark.usefixtures("a_pause_an_item")
def test_requests_written_by_the_library_are_read(
    module: ModuleType, version: int, rnd: Random
) -> None:
    api, schema = module.API, schemas.schema(module.API.request_name)
    found, body = request(api, version, rnd)
    work = long_messages.decode_in_steps(api, version, memoryview(b"head" + body), 4)
    (message, end), pauses = run(work)
    assert end == len(b"head" + body)
    assert list(messages.differences(schema, found, message)) == []
    assert pauses == items(schema.fields.values(), version, found)


def outcome(read: Any) -> Any:
    try:
        message, end = read()
    except REFUSALS as failure:
        return type(failure), str(failure)
    return plain(message), end


@EACH_VERSION
@settings(max_examples=6)
@given(rnd=CHANCE)
@pytest.mark.usefixtures("a_pause_an_item")
def test_damaged_requests_are_refused_as_by_the_quick_reader(
    module: ModuleType, version: int, rnd: Random
) -> None:
    _, whole = request(module.API, version, rnd)
    body = bytearray(whole[: rnd.randint(0, len(whole))] if rnd.randint(0, 1) else whole)
    for _ in range(min(rnd.randint(0, 3), len(body))):
        body[rnd.randrange(len(body))] = rnd.choice((0, 1, 0x7F, 0x80, 0xFF, rnd.randrange(256)))
    frame = memoryview(body)
    quick = outcome(lambda: module.API.decoder(version)(frame, 0))
    assert (
        outcome(lambda: run(long_messages.decode_in_steps(module.API, version, frame, 0))[0])
        == quick
    )


def leaving(count: int) -> memoryview:
    """LeaveGroup 5 of so many members."""
    members = [{"member_id": f"m-{number:05d}", "reason": None} for number in range(count)]
    values = {"group_id": "g", "members": members}
    schema = schemas.schema("LeaveGroupRequest")
    body = stock_codec.encode("LeaveGroupRequest", 5, schemas.as_namespace(schema, values))
    return memoryview(body)


@pytest.mark.parametrize("count", [0, 400, 600, 9_000])
def test_reading_a_long_request_pauses(count: int) -> None:
    frame = leaving(count)
    (message, _), pauses = run(long_messages.decode_in_steps(leave_group.API, 5, frame, 0))
    assert [member.member_id for member in message.members] == [
        f"m-{number:05d}" for number in range(count)
    ]
    assert pauses == (count * BYTES_AN_ITEM + len(frame)) // SLICE_BYTES


def test_bytes_are_copied_in_steps() -> None:
    assignment_bytes = 20_000
    members = [
        {"member_id": f"m{number}", "assignment": bytes(assignment_bytes)} for number in range(200)
    ]
    values = {"group_id": "g", "assignments": members}
    schema = schemas.schema("SyncGroupRequest")
    body = stock_codec.encode("SyncGroupRequest", 5, schemas.as_namespace(schema, values))
    (message, _), pauses = run(
        long_messages.decode_in_steps(sync_group.API, 5, memoryview(body), 0)
    )
    assert len(message.assignments) == 200
    assert pauses >= len(body) // (SLICE_BYTES + assignment_bytes)


def test_two_are_read_at_once() -> None:
    frames = leaving(1_100), leaving(900)
    works = [long_messages.decode_in_steps(leave_group.API, 5, frame, 0) for frame in frames]
    for work in works:
        next(work)
    assert [len(run(work)[0][0].members) for work in works] == [1_100, 900]


# -- answers --------------------------------------------------------------------------------


@EACH_VERSION
@FEW
@given(rnd=CHANCE)
@pytest.mark.usefixtures("a_pause_an_item")
def test_answers_are_the_bytes_of_the_library(
    module: ModuleType, version: int, rnd: Random
) -> None:
    api, name = module.API, messages.response_name(module.API)
    schema = schemas.schema(name)
    found = messages.values(schema, version, rnd)
    response = messages.as_answer(getattr(module, name), schema, found)
    frame, pauses = run(long_messages.encode_in_steps(api, version, 77, response))
    whole = b"".join(map(bytes, frame))
    head = struct.pack(">ii", len(whole) - 4, 77)
    if api.is_flexible(version) and api.flexible_response_header:
        head += b"\0"
    assert whole == head + stock_codec.encode(name, version, schemas.as_namespace(schema, found))
    assert pauses >= items(schema.fields.values(), version, found)


def describing(count: int, data: bytes = b"meta") -> describe_groups.DescribeGroupsResponse:
    groups = [describe_groups.GroupResponse(f"g{number}") for number in range(count)]
    for group in groups:
        group.members = [describe_groups.MemberResponse("m", None, "c", "/h", data, b"part")]
    return describe_groups.DescribeGroupsResponse(groups)


def finding(count: int) -> find_coordinator.FindCoordinatorResponse:
    found = [find_coordinator.Coordinator(f"g{number}", 1, "h", 9, 0) for number in range(count)]
    return find_coordinator.FindCoordinatorResponse(coordinators=found)


def listing(count: int) -> list_groups.ListGroupsResponse:
    groups = [
        list_groups.ListedGroup(f"g{number}", "", "Empty", "classic") for number in range(count)
    ]
    return list_groups.ListGroupsResponse(groups)


@pytest.mark.parametrize(
    ("api", "answer", "items"),
    [
        (describe_groups.API, describing, 2),
        (find_coordinator.API, finding, 1),
        (list_groups.API, listing, 1),
    ],
)
def test_encoding_a_long_response_pauses(api: Api, answer: Any, items: int) -> None:
    for count in (0, 400, 600, 1_700):
        response = answer(count)
        (whole,) = encode_response(api, api.highest, 1, response)
        parts, pauses = run(long_messages.encode_in_steps(api, api.highest, 1, response))
        assert b"".join(parts) == whole
        at_least = items * count // ITEMS_PER_STEP
        assert at_least <= pauses <= at_least + len(whole) // SLICE_BYTES + 1
        assert len(parts) == pauses + 1


def test_big_answers_are_made_of_parts() -> None:
    response = describing(200, bytes(20_000))
    parts, _ = run(long_messages.encode_in_steps(describe_groups.API, 6, 1, response))
    assert max(map(len, parts)) < SLICE_BYTES + 21_000
    assert b"".join(parts) == encode_response(describe_groups.API, 6, 1, response)[0]


def test_two_at_once() -> None:
    long, short = listing(1_100), listing(900)
    works = [
        long_messages.encode_in_steps(list_groups.API, 5, 1, answer) for answer in (long, short)
    ]
    for work in works:
        next(work)
    for work, answer in zip(works, (long, short), strict=True):
        assert b"".join(run(work)[0]) == encode_response(list_groups.API, 5, 1, answer)[0]


def test_an_answer_without_lists() -> None:
    answer = find_coordinator.FindCoordinatorResponse(0, "", 1, "h", 9)
    frame, pauses = run(long_messages.encode_in_steps(find_coordinator.API, 2, 1, answer))
    assert (frame, pauses) == (encode_response(find_coordinator.API, 2, 1, answer), 0)


def test_lists_of_names_are_encoded_in_steps() -> None:
    names = [f"topic-{number}" for number in range(3 * ITEMS_PER_STEP)]
    nothing = consumer_group_describe.Assignment()
    member = consumer_group_describe.Member(
        "m", None, None, 1, "c", "h", names, None, nothing, nothing, 1
    )
    group = consumer_group_describe.DescribedGroup("g", members=[member])
    response = consumer_group_describe.ConsumerGroupDescribeResponse([group])
    work = long_messages.encode_in_steps(consumer_group_describe.API, 1, 77, response)
    frame, pauses = run(work)
    assert pauses >= 3
    assert b"".join(frame) == encode_response(consumer_group_describe.API, 1, 77, response)[0]


# -- error codes ----------------------------------------------------------------------------


def offsets(version: int, counts: list[int]) -> offset_fetch.OffsetFetchResponse:
    topics: list[Any] = []
    for number, count in enumerate(counts):
        partitions = [
            offset_fetch.PartitionResponse(index, 7, 3, "é" * index) for index in range(count)
        ]
        name = f"t{number}"
        if version >= offset_fetch.GROUPS_VERSION:
            topic_id = UUID(int=number)
            topics.append(offset_fetch.GroupTopicResponse(name, topic_id, partitions))
        else:
            topics.append(offset_fetch.TopicResponse(name, partitions))
    if version >= offset_fetch.GROUPS_VERSION:
        groups = [offset_fetch.GroupResponse("g", topics), offset_fetch.GroupResponse("h", (), 16)]
        return offset_fetch.OffsetFetchResponse(groups=groups)
    return offset_fetch.OffsetFetchResponse(topics, ErrorCode.NONE)


@pytest.mark.parametrize("version", (0, 9))
@given(counts=COUNTS)
def test_counting_in_steps_gives_the_same_counts(version: int, counts: list[int]) -> None:
    response = offsets(version, counts)
    expected: defaultdict[int, int] = defaultdict(int)
    error_counter(offset_fetch.API, expected)(response)
    assert run(long_messages.count_errors_in_steps(offset_fetch.API, response))[0] == expected


def test_counting_errors_pauses() -> None:
    counts, pauses = run(
        long_messages.count_errors_in_steps(offset_fetch.API, offsets(9, [600, 1_500]))
    )
    assert counts == {0: 2_100 + 2, 16: 1}  # that of the whole, and of the groups
    assert pauses == 2_100 // ITEMS_PER_STEP
