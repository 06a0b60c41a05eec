"""The messages between brokers, field by field, judged by Apache Kafka 3.9's classes.

That Java reads and writes the same bytes (test_wire_java) would not show two fields in each other's
place; its JSON has them by name. Messages are random, with each seed's values in every version.
"""

from __future__ import annotations

from random import Random
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from kavka.compat_tests.raw.codec import schemas
from kavka.wire.apis import (
    allocate_producer_ids,
    alter_partition,
    controlled_shutdown,
    leader_and_isr,
    stop_replica,
    update_metadata,
)
from kavka.wire.client_frames import decode_response, encode_request
from kavka.wire.codec.frames import encode_response
from support import messages, wire_json
from support.wire_java import Kind
from support.wire_json import Message

BETWEEN_BROKERS = (
    leader_and_isr,
    stop_replica,
    update_metadata,
    controlled_shutdown,
    alter_partition,
    allocate_producer_ids,
)
SEEDS = range(20)
CORRELATION_ID = 123_456
CLIENT_ID = "1"


class Case(NamedTuple):
    """Random values of one message in one version."""

    module: ModuleType
    version: int
    kind: Kind
    found: schemas.Values

    @property
    def name(self) -> str:
        api = self.module.API
        return str(api.request_name if self.kind is Kind.REQUEST else api.response_name)

    @property
    def schema(self) -> Any:
        return schemas.schema(self.name)

    @property
    def json(self) -> Any:
        return wire_json.as_json(self.schema, self.version, self.found)

    def message(self, content: Any) -> Message:
        return Message(self.kind, self.module.API.key, self.version, content)

    def frame(self) -> bytes:
        """As Kavka sends it, without its length."""
        api = self.module.API
        if self.kind is Kind.REQUEST:
            request = schemas.as_namespace(self.schema, self.found)
            parts = encode_request(api, self.version, CORRELATION_ID, CLIENT_ID, request)
        else:
            answer = messages.as_answer(getattr(self.module, self.name), self.schema, self.found)
            parts = encode_response(api, self.version, CORRELATION_ID, answer)
        return b"".join(map(bytes, parts))[4:]

    def read(self, body: bytes) -> Any:
        """What Kavka receives."""
        api = self.module.API
        if self.kind is Kind.REQUEST:
            request, end = api.decoder(self.version)(memoryview(body), 0)
            assert end == len(body)
            return request
        head = bytes(5 if api.is_flexible(self.version) else 4)
        return decode_response(api, self.version, memoryview(head + body))


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    made = []
    for module in BETWEEN_BROKERS:
        for version in range(module.API.lowest, module.API.highest + 1):
            for kind, name in (
                (Kind.REQUEST, module.API.request_name),
                (Kind.RESPONSE, module.API.response_name),
            ):
                for seed in SEEDS:
                    found = messages.values(schemas.schema(name), version, Random(seed))
                    made.append(Case(module, version, kind, found))
    return made


def test_java_reads_each_field_of_what_kavka_writes(cases: list[Case]) -> None:
    theirs = wire_json.read([each.message(each.frame()) for each in cases])
    for case, found in zip(cases, theirs, strict=True):
        assert found == case.json, f"{case.name} v{case.version}"


def test_kavka_reads_each_field_of_what_java_writes(cases: list[Case]) -> None:
    bodies = wire_json.written([each.message(each.json) for each in cases])
    for case, body in zip(cases, bodies, strict=True):
        wrong = list(messages.differences(case.schema, case.found, case.read(body)))
        assert wrong == [], f"{case.name} v{case.version}"
