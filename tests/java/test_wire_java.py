"""The wire format judged by Apache Kafka's own message classes: byte for byte, both ways.

4.3.1 is the judge of what it serves, 3.9.2 of the versions that 4 dropped.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from random import Random
from types import ModuleType
from typing import NamedTuple

import pytest

from kavka.compat_tests.raw.codec import schemas, stock_codec
from kavka.wire import header
from kavka.wire.apis import fetch, produce
from kavka.wire.codec.frames import encode_response
from kavka.wire.errors import ErrorCode
from support import java_compiler, messages, wire_java
from support.wire_java import Frame, Judged, Kind, Outcome

SEEDS = range(6)
CLIENT_IDS = (None, "", "a client", "Ægir")
CORRELATION_ID = 123_456


class Case(NamedTuple):
    """One random message of a served API and version."""

    module: ModuleType
    version: int
    kind: Kind
    found: schemas.Values
    frame: bytes

    @property
    def title(self) -> str:
        return f"{self.kind.name.lower()} {messages.title(self.module, self.version)}"


def request_frame(module: ModuleType, version: int, body: bytes, client_id: str | None) -> bytes:
    api = module.API
    if version < api.first_with_client_id:
        return struct.pack(">hhi", api.key, version, CORRELATION_ID) + body
    head = stock_codec.MODULES["kafka.protocol.api_header"].RequestHeader(
        request_api_key=api.key,
        request_api_version=version,
        correlation_id=CORRELATION_ID,
        client_id=client_id,
    )
    return bytes(head.encode(flexible=api.is_flexible(version))) + body


def request_case(module: ModuleType, version: int, seed: int) -> Case:
    name = module.API.request_name
    struct_ = schemas.schema(name)
    found = messages.values(struct_, version, Random(seed))
    body = stock_codec.encode(name, version, schemas.as_namespace(struct_, found))
    frame = request_frame(module, version, body, CLIENT_IDS[seed % len(CLIENT_IDS)])
    return Case(module, version, Kind.REQUEST, found, frame)


def response_case(module: ModuleType, version: int, seed: int) -> Case:
    name = messages.response_name(module.API)
    struct_ = schemas.schema(name)
    found = messages.values(struct_, version, Random(seed))
    answer = messages.as_answer(getattr(module, name), struct_, found)
    parts = encode_response(module.API, version, CORRELATION_ID, answer)
    frame = b"".join(bytes(part) for part in parts)[4:]
    return Case(module, version, Kind.RESPONSE, found, frame)


def all_cases() -> list[Case]:
    return [
        make(module, version, seed)
        for module, version in messages.known()
        for make in (request_case, response_case)
        for seed in SEEDS
    ]


def judge(frames: list[Frame], libs: Path) -> list[Judged]:
    """By these jars, and where they don't serve the version by 3.9's."""
    newest = wire_java.judge(frames, libs)
    older = wire_java.judge(frames, java_compiler.libs())
    return [
        old if new.outcome is Outcome.NOT_SERVED else new
        for new, old in zip(newest, older, strict=True)
    ]


@pytest.fixture(scope="module")
def judged(kafka_libs: Path) -> list[tuple[Case, Judged]]:
    cases = all_cases()
    frames = [Frame(case.kind, case.module.API.key, case.version, case.frame) for case in cases]
    return list(zip(cases, judge(frames, kafka_libs), strict=True))


def test_java_reads_every_message_and_writes_the_same_bytes(
    judged: list[tuple[Case, Judged]],
) -> None:
    wrong = [
        f"{case.title}: {found.outcome.name} {found.frame!r} instead of {case.frame!r}"
        for case, found in judged
        if found != (Outcome.WRITTEN, case.frame)
    ]
    assert not wrong, f"{len(wrong)} of {len(judged)}:\n" + "\n".join(wrong[:5])


def test_what_java_writes_is_read(judged: list[tuple[Case, Judged]]) -> None:
    for case, found in judged:
        if case.kind is Kind.REQUEST:
            assert read_differences(case, memoryview(found.frame)) == [], case.title


def read_differences(case: Case, frame: memoryview) -> list[str]:
    """Read a whole request as a connection does; where it is not what was meant."""
    api = case.module.API
    key, version, correlation_id, id_length = header.read_fixed(frame)
    assert (key, version, correlation_id) == (api.key, case.version, CORRELATION_ID)
    if version < api.first_with_client_id:
        position = header.BYTES_WITHOUT_CLIENT_ID
    else:
        client_id, position = header.read_client_id(frame, id_length)
        assert client_id in CLIENT_IDS
    if api.is_flexible(version):
        position = header.skip_tags(frame, position)
    request, end = api.decoder(version)(frame, position)
    assert end == len(frame)
    struct_ = schemas.schema(api.request_name)
    return list(messages.differences(struct_, case.found, request))


def test_tagged_structs_of_defaults_are_left_out_as_java_does(kafka_libs: Path) -> None:
    unknown = fetch.LeaderIdAndEpoch()
    fetched = fetch.FetchResponse(
        [
            fetch.TopicResponse(
                "t",
                None,
                [
                    fetch.PartitionResponse(0, current_leader=unknown),
                    fetch.PartitionResponse(
                        1,
                        diverging_epoch=fetch.EpochEndOffset(3, 4),
                        current_leader=unknown,
                        snapshot_id=fetch.SnapshotId(),
                    ),
                ],
            )
        ]
    )
    produced = produce.ProduceResponse(
        [produce.TopicResponse("t", None, [produce.PartitionResponse(0, current_leader=unknown)])]
    )
    frames = [
        Frame(
            Kind.RESPONSE, api.key, version, b"".join(encode_response(api, version, 1, answer))[4:]
        )
        for api, version, answer in ((fetch.API, 12, fetched), (produce.API, 10, produced))
    ]
    assert [frame.frame for frame in judge(frames, kafka_libs)] == [frame.frame for frame in frames]


# -- odd requests ---------------------------------------------------------------------------


def odd_requests() -> Mapping[str, tuple[ModuleType, int, bytes]]:
    """Bodies that a stock client doesn't send: name -> (module, version, body)."""
    plain = stock_codec.encode(
        "FetchRequest", 15, schemas.as_namespace(schemas.schema("FetchRequest"), {})
    )[:-1]
    state = struct.pack(">iq", 5, 6)
    return {
        "tags that fall": (fetch, 15, plain + b"\x02\x63\x01a\x62\x01b"),
        "a tag twice": (fetch, 15, plain + b"\x02\x63\x01a\x63\x01b"),
        "unknown tags in a tagged struct": (
            fetch,
            15,
            plain + b"\x01\x01\x10" + state + b"\x01\x2a\x01x",
        ),
        "a tag past the end": (fetch, 15, plain + b"\x01\x63\x09ab"),
        "an endless tag": (fetch, 15, plain + b"\x01" + b"\xff" * 8),
        "no tagged section": (fetch, 15, plain),
        "a null array": (produce, 3, struct.pack(">hhii", -1, 1, 1000, -1)),
        "a null name": (produce, 3, struct.pack(">hhiihi", -1, 1, 1000, 1, -1, 0)),
        "an array past the end": (produce, 3, struct.pack(">hhii", -1, 1, 1000, 10**6)),
        "a name past the end": (produce, 3, struct.pack(">hhiih", -1, 1, 1000, 1, 40) + b"abc"),
        "records past the end": (
            produce,
            3,
            struct.pack(">hhiih", -1, 1, 1000, 1, 1) + b"t" + struct.pack(">iii", 1, 0, 99),
        ),
        "a compact string past the end": (produce, 9, b"\x40abc"),
        "a varint of six bytes": (produce, 9, b"\xff\xff\xff\xff\xff\x01" + bytes(20)),
    }


def test_odd_requests_are_read_or_refused_as_java_does(kafka_libs: Path) -> None:
    odd = odd_requests()
    frames = [
        Frame(Kind.REQUEST, module.API.key, version, request_frame(module, version, body, None))
        for module, version, body in odd.values()
    ]
    theirs = {
        name: found.outcome is not Outcome.REFUSED
        for name, found in zip(odd, judge(frames, kafka_libs), strict=True)
    }
    assert {name: is_read(*request) for name, request in odd.items()} == theirs
    assert set(theirs.values()) == {True, False}


def is_read(module: ModuleType, version: int, body: bytes) -> bool:
    try:
        module.API.decoder(version)(memoryview(body), 0)
    except (ValueError, IndexError, struct.error):
        return False
    return True


# -- error codes ----------------------------------------------------------------------------


def test_error_codes_are_java_s(kafka_libs: Path) -> None:
    [found] = wire_java.judge([Frame(Kind.ERROR_CODES, 0, 0, b"")], kafka_libs)
    theirs = [line.split() for line in found.frame.decode().splitlines()]
    assert len(theirs) > 130
    assert {(int(code), name, retriable == "true") for code, name, retriable in theirs} == {
        (code.value, code.name, code.retriable)
        for code in ErrorCode
        if code.value < len(theirs) - 1
    }
