"""Requests and responses as text, in the notation of scenario files.

    topics: [t {num_partitions: 3}, u {configs: [retention.ms {value: "5"}]}], timeout_ms: 5000

Fields have the schema's names; those that have the schema's default are left out. A struct is its
key field (a name or a number), followed by the others in braces if there are any; one without a key
field is only the braces. Of a response, `error_code` is only the error's name, and
`error_message` only the text in quotes. Records of a request are `batch`, three records, or
`batch-gzip` with a codec; those of a response are their offsets. Times are relative to the clock's
start, T. Ids that differ from run to run have names: `Names`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from uuid import UUID

from kavka.compat_tests.raw.codec.batches import BASE_TIMESTAMP_MS, build
from kavka.server.auth.authorizer import Operation
from kavka.wire.errors import ErrorCode
from support import messages
from support.logs import parse

LINE_CHARACTERS_MAX: Final = 110
TIMES_WITHIN_MS: Final = 400 * 86_400_000
KEYS: Final = (
    "name",
    "topic",
    "topic_name",
    "group_id",
    "transactional_id",
    "member_id",
    "key",
    "feature",
    "resource_name",
    "partition_index",
    "partition_id",
    "partition",
    "index",
    "broker_id",
    "node_id",
    "api_key",
    "replica_id",
    "log_dir",
    "path",
    "producer_id",
)
"""Fields that a struct is named by: the first of these that it has."""

_CLOSING: Final = {"[": "]", "{": "}"}
_TOKEN: Final = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[\[\]{},]|[^\s\[\]{},"][^\[\]{},"]*)')

_GENERATED_MEMBER: Final = re.compile(r"^[\w-]+-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


class Names:
    """Names of ids: `#t` of a topic's, `#7` is UUID(int=7), `member-1` is a generated member id,
    `session-1` a fetch session's."""

    def __init__(self) -> None:
        self.hidden: set[str] = set()
        """Fields of responses that are not written."""
        self._ids: dict[str, UUID] = {}
        self._members: list[str] = []
        self._sessions: list[int] = []

    def topic(self, name: str, topic_id: UUID) -> None:
        """Name a topic's id."""
        self._ids[name] = topic_id

    def id_named(self, text: str) -> UUID:
        """The id that `#name` stands for."""
        name = text.removeprefix("#")
        return self._ids[name] if name in self._ids else UUID(int=int(name))

    def of_id(self, found: UUID) -> str:
        """`#name`, of a new id `#id1`, `#id2` ..."""
        for name, known in self._ids.items():
            if known == found:
                return f"#{name}"
        if found.int < 1000:
            return f"#{found.int}"
        self._ids[f"id{len(self._ids) + 1}"] = found
        return self.of_id(found)

    def session_named(self, text: str) -> int:
        """The id of the fetch session that `session-1` stands for; 0 before there is one."""
        number = int(text.rpartition("-")[2])
        return self._sessions[number - 1] if number <= len(self._sessions) else 0

    def of_session(self, found: int) -> str:
        """The name of a fetch session's id."""
        if not found:
            return "0"
        if found not in self._sessions:
            self._sessions.append(found)
        return f"session-{self._sessions.index(found) + 1}"

    def member_named(self, text: str) -> str:
        """The generated member id that `member-1` stands for; others are as they are."""
        prefix, _, number = text.partition("-")
        if prefix != "member" or not number.isdigit() or int(number) > len(self._members):
            return text
        return self._members[int(number) - 1]

    def of_member(self, found: str) -> str:
        """The name of a generated member id."""
        if not _GENERATED_MEMBER.search(found):
            return found
        if found not in self._members:
            self._members.append(found)
        return f"member-{self._members.index(found) + 1}"


def key_field(struct: Any) -> str | None:
    """The field that a struct is named by."""
    fields = [field.name for field in struct._fields]
    return next((name for name in KEYS if name in fields), None)


# -- reading ------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, text: str, names: Names) -> None:
        self._tokens = [match.group(1).strip() for match in _TOKEN.finditer(text)]
        self._names = names

    def fields(self, struct: Any, end: str = "") -> dict[str, Any]:
        """`name: value, ...` up to `end`."""
        by_name = {field.name: field for field in struct._fields}
        found: dict[str, Any] = {}
        while self._tokens and self._tokens[0] != end:
            name, colon, rest = self._tokens.pop(0).partition(":")
            assert colon, f"a field's value is missing: {name}"
            assert name in by_name, f"no field {name}, but {', '.join(by_name)}"
            if rest.strip():
                self._tokens.insert(0, rest.strip())
            found[name] = self._value(by_name[name])
            self._skip(",")
        return found

    def _skip(self, token: str) -> bool:
        if self._tokens and self._tokens[0] == token:
            self._tokens.pop(0)
            return True
        return False

    def _value(self, field: Any) -> Any:
        if self._tokens[0] == "null":
            return self._tokens.pop(0) and None
        if not self._skip("["):
            return self._item(field)
        found = []
        while not self._skip("]"):
            found.append(self._item(field.array_of))
            self._skip(",")
        return found

    def _item(self, field: Any) -> Any:
        if not field._fields:
            return self._scalar(field)
        found: dict[str, Any] = {}
        if self._tokens[0] != "{":
            name = key_field(field)
            assert name is not None, f"{field.name} has no key field"
            by_name = {subfield.name: subfield for subfield in field._fields}
            found[name] = self._scalar(by_name[name])
        if self._skip("{"):
            found |= self.fields(field, "}")
            assert self._skip("}"), "a brace is not closed"
        return found

    def _scalar(self, field: Any) -> Any:
        token = self._tokens.pop(0)
        kind = field.type_str.removeprefix("[]")
        if kind == "string":
            return self._names.member_named(_unquoted(token).encode("latin-1").decode())
        if token == "null":
            return None
        if kind == "uuid":
            return self._names.id_named(token)
        if kind == "bool":
            return {"true": True, "false": False}[token]
        if token.startswith("session-"):
            return self._names.session_named(token)
        if kind in messages.BITS:
            return int(token) if token[0] != "T" else BASE_TIMESTAMP_MS + int(token[1:] or 0)
        if kind == "records":
            batch, _, codec = token.partition("-")
            assert batch == "batch"
            return bytes(build(codec=codec or "none"))
        return _unquoted(token).encode("latin-1")


def _unquoted(token: str) -> str:
    """With each character a byte of UTF-8."""
    text = token.encode().decode("latin-1")
    return text[1:-1].encode().decode("unicode_escape") if text.startswith('"') else text


def read(struct: Any, text: str, names: Names) -> dict[str, Any]:
    """The values of a request that is written as `text`."""
    return _Reader(text, names).fields(struct)


# -- writing ------------------------------------------------------------------------------------


Part = tuple[str, list[Any]] | str
"""What is written as it is, or a head, which ends with a bracket, and what stands within."""


def write(struct: Any, message: Any, names: Names) -> list[str]:
    """A response as lines: few, and none too long if that can be."""
    return list(_filled(list(_fields(struct, message, names)))) or ["ok"]


def _flat(part: Part) -> str:
    if isinstance(part, str):
        return part
    head, inside = part
    return f"{head}{', '.join(_flat(inner) for inner in inside)}{_CLOSING[head[-1]]}"


def _filled(parts: list[Part]) -> Iterator[str]:
    """Several parts on each line; one that is too long begins a block of its own."""
    line = ""
    for part in parts:
        text = _flat(part)
        joined = f"{line}, {text}" if line else text
        if len(joined) <= LINE_CHARACTERS_MAX:
            line = joined
            continue
        if line:
            yield line
        line = text
        if len(text) > LINE_CHARACTERS_MAX:
            line = ""
            yield from _block(part)
    if line:
        yield line


def _block(part: Part) -> Iterator[str]:
    if isinstance(part, str):
        yield part
        return
    head, inside = part
    name = head.rstrip("[{ :") + ":"
    if len(inside) == 1 and not isinstance(inside[0], str):
        first, *rest = _block(inside[0])
        yield f"{name} {first}"
        yield from rest
        return
    yield name
    of_structs = any(not isinstance(inner, str) for inner in inside)
    one_by_one = head.endswith("[") and of_structs
    for lines in map(_filled, [[inner] for inner in inside] if one_by_one else [inside]):
        yield from (f"  {line}" for line in lines)


def _fields(struct: Any, message: Any, names: Names, key: str | None = None) -> Iterator[Part]:
    for field in struct._fields:
        value = getattr(message, field.name)
        if field.name != key and field.name not in names.hidden and not _is_default(field, value):
            yield _named(field, value, names)


def _is_default(field: Any, value: Any) -> bool:
    if field.name == "error_message" and value is None:
        return True
    if field.is_struct() and value is not None:
        return False  # the library knows no default of it
    return bool(value == field.default or (field.default == [] and value == ()))


def _named(field: Any, value: Any, names: Names) -> Part:
    if field.name in ("error_code", "partition_error_code"):
        return ErrorCode(value).name
    if field.name == "error_message":
        return _scalar(field, value, names)
    if isinstance(value, list | tuple):
        return f"{field.name}: [", [_item(field.array_of, element, names) for element in value]
    item = _item(field, value, names)
    return (
        f"{field.name}: {item}" if isinstance(item, str) else (f"{field.name}: {item[0]}", item[1])
    )


def _item(field: Any, value: Any, names: Names) -> Part:
    if value is None or not field._fields:
        return _scalar(field, value, names)
    key = key_field(field)
    by_name: Mapping[str, Any] = {subfield.name: subfield for subfield in field._fields}
    head = ""
    if key is not None and getattr(value, key) is not None:
        head = _scalar(by_name[key], getattr(value, key), names)
    else:
        key = None
    inside = list(_fields(field, value, names, key))
    if not inside:
        return head or "{}"
    return f"{head} {{".lstrip(), inside


def _scalar(field: Any, value: Any, names: Names) -> str:
    kind = field.type_str.removeprefix("[]")
    if value is None:
        return "null"
    if field.name == "session_id":
        return names.of_session(value)
    if field.name == "cluster_id":
        return "some"
    if field.name.endswith("authorized_operations"):
        return (
            "+".join(operation.name for operation in Operation if value >> operation & 1) or "none"
        )
    if field.name.endswith("error_code"):
        return ErrorCode(value).name
    if kind == "records":
        return _records(bytes(value))
    if kind == "string":
        text = names.of_member(value)
        is_plain = re.fullmatch(r"[\w.#/()-]+", text) and field.name != "error_message"
        return text if is_plain else '"' + text.replace('"', '\\"') + '"'
    if isinstance(value, UUID):
        return names.of_id(value)
    if isinstance(value, bool):
        return str(value).lower()
    if kind == "int64" and abs(value - BASE_TIMESTAMP_MS) < TIMES_WITHIN_MS:
        return f"T{value - BASE_TIMESTAMP_MS:+d}" if value != BASE_TIMESTAMP_MS else "T"
    return f'"{repr(bytes(value))[2:-1]}"' if kind == "bytes" else str(value)


def _records(data: bytes) -> str:
    offsets = [record.offset for record in parse(data)]
    return f"offsets {offsets[0]}-{offsets[-1]}" if offsets else "none"
