"""kafka-python's codec as it is published, not mended: the judge of Kavka's.

A private copy again, so that making message classes of it leaves the `kafka` of a client in the
same process alone. Loaded by code of its own, not by `wire.codec.private_copy`. Messages that the
library has no schema of are read by the schemas of Apache Kafka that Kavka ships.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from functools import cache
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any

_PREFIX = "kafka.protocol"
_MORE_SCHEMAS = resources.files("kavka.wire.codec") / "schemas"


def _load() -> dict[str, ModuleType]:
    """The copy's modules by name; `sys.modules` is left as it was. Not while another thread imports
    the library."""
    users = {name: sys.modules.pop(name) for name in _of_kafka()}
    try:
        importlib.import_module(f"{_PREFIX}.api_message")
        copy = {name: sys.modules[name] for name in _of_kafka()}
        _add_schemas(copy[f"{_PREFIX}.api_data"])
        return copy
    finally:
        for name in _of_kafka():
            del sys.modules[name]
        sys.modules.update(users)


def _add_schemas(module: Any) -> None:
    """Let the library's `load_json` find what only Kavka ships."""
    of_library = module.load_json

    def load_json(name: str, package: Any = None) -> Any:
        try:
            return of_library(name, package=package)
        except FileNotFoundError:
            return _schema_of_kavka(name)

    module.load_json = load_json


def _schema_of_kavka(name: str) -> Any:
    schema = json.loads((_MORE_SCHEMAS / f"{name}.json").read_text("utf-8"))
    shared = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", ())}
    _fill_in(schema["fields"], shared)
    return schema


def _fill_in(fields: list[Any], shared: dict[str, Any]) -> None:
    """Give fields of a shared struct's type that struct's fields."""
    for field in fields:
        name = field["type"].removeprefix("[]")
        if name in shared and "fields" not in field:
            field["fields"] = shared[name]
        _fill_in(field.get("fields", ()), shared)


def _of_kafka() -> list[str]:
    return [name for name in sys.modules if name == "kafka" or name.startswith("kafka.")]


MODULES = _load()
"""The copy's modules by name."""


@cache
def message_class(name: str) -> Any:
    """The class of one message, straight from the schema: `FetchResponse`."""
    base: Any = MODULES[f"{_PREFIX}.api_message"].ApiMessage
    return type(base)(name, (base,), {})


def message_names() -> list[str]:
    """All messages that the library has a schema of."""
    spec = importlib.util.find_spec("kafka")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    folder = Path(spec.submodule_search_locations[0]) / "protocol" / "schemas" / "resources"
    found = (path.stem for path in folder.glob("*.json"))
    return sorted(name for name in found if name.endswith(("Request", "Response")))


@cache
def is_flexible(name: str, version: int) -> bool:
    """Whether this version has compact types and tagged sections."""
    return bool(message_class(name).flexible_version_q(version))


def encode(name: str, version: int, message: Any) -> bytes:
    """The body of `message`, which may be any object with the schema's attributes."""
    flexible = is_flexible(name, version)
    write = message_class(name)._struct.compiled_encode_into(
        version, compact=flexible, tagged=flexible
    )
    buffer = MODULES[f"{_PREFIX}.schemas.fields.codecs.encode_buffer"].EncodeBuffer()
    write(message, buffer)
    return bytes(buffer.result())


def decode(name: str, version: int, body: bytes | memoryview) -> tuple[Any, int]:
    """(message, bytes read) of a body."""
    made, flexible = message_class(name), is_flexible(name, version)
    read = made._struct.compiled_decode_from(
        version, compact=flexible, tagged=flexible, data_class=made
    )
    message, end = read(memoryview(body), 0)
    return message, end
