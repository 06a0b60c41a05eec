"""Well-formed requests of every served API and version, to be damaged by `fuzz.mutations`.

Two kinds of values: the schema's extremes (`support.messages`), and sensible ones that get far
into a handler: topics that there are, partitions 0 and 1, whole record batches. An API that is
added to the dispatch table joins by itself; `SENSIBLE` says what its fields should hold, by
`parent.field` or `field`, where the extremes would do harm or be refused at once.

Each request is written by a writer of our own that notes where lengths, numbers and tagged
sections lie; kafka-python's codec, as published, must write the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from fuzz.records import BATCHES
from kavka.compat_tests.raw.codec import schemas, stock_codec
from kavka.compat_tests.raw.codec.batches import uvarint
from kavka.compat_tests.raw.codec.schemas import Values
from kavka.server.connections.dispatch import HANDLERS
from kavka.wire.api import Api
from support import messages

TOPICS = ("fuzz-a", "fuzz-b")
PARTITIONS = 2
BOMB_TOPIC = "fuzz-bombs"
PASSING_TOPICS = ("fuzz-passing-1", "fuzz-passing-2", "fuzz-passing-3")
"""Topics that requests create and delete."""

CLIENT_ID = b"fuzz"
FIXED_HEADER_BYTES = 10
CORRELATION_AT = 4
SENSIBLE_TEMPLATES = 10
EXTREME_TEMPLATES = 4

INTEGERS = {"int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "int64": ">q"}


class Mark(NamedTuple):
    """Something worth damaging: `int`, `array`, `string`, `bytes`, `tags` (`array` to `tags`: the
    length in front) at `at` in the frame, `size` bytes wide. `end`: where the content ends."""

    kind: str
    at: int
    size: int
    end: int


class Template(NamedTuple):
    """One well-formed frame without its length; its marks lie behind the header."""

    api: Api
    version: int
    flexible: bool
    frame: bytes
    marks: Sequence[Mark]
    integers: Sequence[Mark]
    lengths: Sequence[Mark]
    tags: Sequence[Mark]
    records: Sequence[Mark]


class World(NamedTuple):
    """What there is on the broker."""

    broker_id: int
    topic_ids: Mapping[str, UUID]


def served() -> list[tuple[Api, int]]:
    """Each API and version that a broker answers."""
    return [
        (api, version)
        for api, _ in HANDLERS.values()
        for version in range(api.lowest, api.highest + 1)
    ]


def templates(world: World, seed: int) -> list[list[Template]]:
    """Templates of all that is served, API by API."""
    rnd = Random(seed)
    made: dict[int, list[Template]] = {}
    for api, version in served():
        found = made.setdefault(api.key, [])
        for number in range(SENSIBLE_TEMPLATES + EXTREME_TEMPLATES):
            schema = schemas.schema(api.request_name)
            values = messages.values(schema, version, rnd)
            if number < SENSIBLE_TEMPLATES:
                values = _Sense(api, version, world, rnd).of(schema, values)
            found.append(template(api, version, values))
    return list(made.values())


def template(api: Api, version: int, values: Values) -> Template:
    """One request with these values."""
    flexible = api.is_flexible(version)
    writer = _Writer(version, flexible)
    schema = schemas.schema(api.request_name)
    writer.header(api)
    body_at = len(writer.out)
    writer.struct(schema, values)
    body = stock_codec.encode(api.request_name, version, schemas.as_namespace(schema, values))
    assert bytes(writer.out[body_at:]) == body, f"{api.name} v{version} is written wrongly"
    marks = writer.marks
    return Template(
        api,
        version,
        flexible,
        bytes(writer.out),
        marks,
        [mark for mark in marks if mark.kind == "int"],
        [mark for mark in marks if mark.kind in ("array", "string", "bytes", "records")],
        [mark for mark in marks if mark.kind == "tags"],
        [mark for mark in marks if mark.kind == "records"],
    )


# -- bytes with marks -----------------------------------------------------------------------


class _Writer:
    def __init__(self, version: int, flexible: bool) -> None:
        self.out = bytearray()
        self.marks: list[Mark] = []
        self._version = version
        self._flexible = flexible

    def header(self, api: Api) -> None:
        self.out += struct.pack(">hhih", api.key, self._version, 0, len(CLIENT_ID)) + CLIENT_ID
        if self._flexible:
            self._mark("tags", len(self.out), 1)
            self.out.append(0)

    def struct(self, schema: Any, values: Values) -> None:
        tagged = []
        for field in schema._fields:
            if not field.for_version_q(self._version):
                continue
            if field.tagged_field_q(self._version):
                if field.name in values and values[field.name] != field.default:
                    tagged.append(field)
            else:
                self._field(field, values.get(field.name, field.default))
        if self._flexible:
            self._tagged(tagged, values)

    def _tagged(self, fields: list[Any], values: Values) -> None:
        at = len(self.out)
        self.out += uvarint(len(fields))
        self._mark("tags", at, 1)
        for field in sorted(fields, key=lambda each: int(each.tag)):
            inner = _Writer(self._version, self._flexible)
            inner._field(field, values[field.name])
            self.out += uvarint(field.tag) + uvarint(len(inner.out))
            base = len(self.out)
            self.out += inner.out
            self.marks += [
                mark._replace(at=mark.at + base, end=mark.end + base) for mark in inner.marks
            ]

    def _field(self, field: Any, value: Any) -> None:
        if field.is_struct_array() or field.is_array():
            at = self._length("array", None if value is None else len(value))
            for item in value or ():
                self._item(field.array_of, item)
            self._ends(at)
        elif field.is_struct() and field.nullable_for_version_q(self._version):
            self.out += b"\xff" if value is None else b"\x01"
            if value is not None:
                self.struct(field, value)
        else:
            self._item(field, value)

    def _item(self, field: Any, value: Any) -> None:
        if getattr(field, "_fields", None):
            self.struct(field, value)
            return
        kind = field.type_str.removeprefix("[]")
        at = len(self.out)
        if kind in INTEGERS:
            self.out += struct.pack(INTEGERS[kind], value)
            self._mark("int", at, len(self.out) - at)
        elif kind == "bool":
            self.out.append(bool(value))
            self._mark("int", at, 1)
        elif kind == "float64":
            self.out += struct.pack(">d", value)
            self._mark("int", at, 8)
        elif kind == "uuid":
            self.out += bytes(16) if value is None else value.bytes
        else:
            self._payload(kind, value)

    def _payload(self, kind: str, value: Any) -> None:
        content = value.encode() if isinstance(value, str) else value
        at = self._length(kind, None if content is None else len(content), short=kind == "string")
        self.out += content or b""
        self._ends(at)

    def _length(self, kind: str, count: int | None, *, short: bool = False) -> int:
        """Write a length; the index of its mark."""
        at = len(self.out)
        if self._flexible:
            self.out += uvarint(0 if count is None else count + 1)
        else:
            self.out += struct.pack(">h" if short else ">i", -1 if count is None else count)
        self._mark(kind, at, len(self.out) - at)
        return len(self.marks) - 1

    def _mark(self, kind: str, at: int, size: int) -> None:
        self.marks.append(Mark(kind, at, size, at + size))

    def _ends(self, index: int) -> None:
        self.marks[index] = self.marks[index]._replace(end=len(self.out))


# -- values that get far --------------------------------------------------------------------

Choice = Callable[["_Sense"], Any]


def _one_of(*values: Any) -> Choice:
    return lambda sense: sense.rnd.choice(values)


def _rarely(unusual: Any, usual: Any) -> Choice:
    return lambda sense: unusual if sense.rnd.randint(0, 7) == 0 else usual


SENSIBLE: dict[str, Choice] = {
    # what is named
    "name": lambda sense: sense.topic(),
    "topic": lambda sense: sense.topic(),
    "topic_name": lambda sense: sense.topic(),
    "topic_names": lambda sense: sense.topic(),
    "topic_id": lambda sense: sense.topic_id(),
    "partition": _one_of(0, 0, 1, 2),
    "partition_index": _one_of(0, 0, 1, 2),
    "partition_indexes": _one_of(0, 1, 2),
    "partitions": _one_of(0, 1, 2),
    "index": _one_of(0, 0, 1, 2),
    "resource_type": _one_of(2, 2, 4, 8, 16),
    "resource_name": lambda sense: sense.rnd.choice((sense.topic(), "1", "")),
    "configs.name": _one_of("retention.ms", "max.message.bytes", "cleanup.policy", "nonsense"),
    "configs.value": _one_of("1000000", "compact", "delete", "", None),
    "config_operation": _one_of(0, 1, 2, 3),
    "configuration_keys": _one_of("retention.ms", "cleanup.policy", "log.retention.ms"),
    # what changes the cluster, and what would change it too much
    "num_partitions": _rarely(-1, 1),
    "replication_factor": _rarely(-1, 1),
    "assignments": lambda sense: [],
    "count": _rarely(1, 2),
    "replicas": lambda sense: sense.broker_id,
    "broker_ids": lambda sense: sense.broker_id,
    "validate_only": lambda sense: True,
    "allow_auto_topic_creation": lambda sense: False,
    # what takes time, or is refused before anything is done
    "timeout_ms": _one_of(0, 100, 1000),
    "max_wait_ms": _rarely(5, 0),
    "min_bytes": _one_of(0, 1),
    "max_bytes": _one_of(0, 1000, 20_000),
    "partition_max_bytes": _one_of(0, 1000, 20_000),
    "acks": _one_of(1, -1, -1, 0),
    "transactional_id": _rarely("tx", None),
    "producer_id": _rarely(1000, -1),
    "producer_epoch": _rarely(0, -1),
    "replica_id": _rarely(2, -1),
    "replica_state": lambda sense: None,
    "isolation_level": _one_of(0, 1),
    "session_id": lambda sense: 0,
    "session_epoch": _rarely(0, -1),
    "current_leader_epoch": _rarely(0, -1),
    "leader_epoch": _one_of(0, -1, 1),
    "last_fetched_epoch": _rarely(0, -1),
    "fetch_offset": _one_of(0, 0, 1, 100),
    "timestamp": _one_of(-1, -2, -3, -4, -5, 0, 1_700_000_000_000),
    "records": lambda sense: sense.rnd.choice(BATCHES),
    "client_software_name": _one_of("fuzz", "apache-kafka-java"),
    "client_software_version": _one_of("1.0", "4.3.1"),
}
"""Values by `parent.field`, or `field`. Tagged fields named here are left out when None."""

_BY_API: dict[str, dict[str, Choice]] = {
    "CreateTopics": {"topics.name": _one_of(*TOPICS, *PASSING_TOPICS)},
    "DeleteTopics": {
        "name": _one_of(*PASSING_TOPICS),
        "topic_names": _one_of(*PASSING_TOPICS),
        "topic_id": lambda sense: None,
    },
    "CreatePartitions": {"name": _one_of("fuzz-none", *PASSING_TOPICS)},
}
"""Where a field of the same name means something else, or what is done to it can't be undone."""


class _Sense:
    """Puts sensible values into random ones."""

    def __init__(self, api: Api, version: int, world: World, rnd: Random) -> None:
        self.rnd: Random = rnd
        self.broker_id: int = world.broker_id
        self._version = version
        self._topic_ids = world.topic_ids
        self._table = {**SENSIBLE, **_BY_API.get(api.name, {})}

    def topic(self) -> str:
        return self.rnd.choice((*TOPICS, *TOPICS, PASSING_TOPICS[0], "fuzz-none"))

    def topic_id(self) -> UUID | None:
        return self._topic_ids.get(self.topic())

    def of(self, schema: Any, values: Values, parent: str = "") -> Values:
        """`values` with sensible ones instead of most."""
        return dict(self._fields(schema, values, parent))

    def _fields(self, schema: Any, values: Values, parent: str) -> Iterator[tuple[str, Any]]:
        for field in schema._fields:
            if field.name not in values:
                continue
            found = self._value(field, values[field.name], parent)
            if found is None and not field.nullable_for_version_q(self._version):
                if field.tagged_field_q(self._version):
                    continue
                if field.type_str.removeprefix("[]") != "uuid":
                    found = values[field.name]
            yield field.name, found

    def _value(self, field: Any, value: Any, parent: str) -> Any:
        choose = self._table.get(f"{parent}.{field.name}") or self._table.get(field.name)
        inner = field.array_of if field.is_struct_array() else field
        if getattr(inner, "_fields", None):
            if choose is not None and field.name in ("assignments", "replica_state"):
                return choose(self)
            if field.is_struct_array():
                given = value or [messages.values(inner, self._version, self.rnd)]
                return [self.of(inner, element, field.name) for element in given]
            return None if value is None else self.of(inner, value, field.name)
        if choose is None:
            return value
        if field.is_array():
            return [choose(self) for _ in range(self.rnd.randint(1, 2))]
        return choose(self)
