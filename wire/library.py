"""kafka-python's schema-driven codec, loaded as a private copy.

Private, because a test may run the broker in a process whose own program imports kafka-python:
our mended readers (`kavka.wire.mending`) and message classes must not reach that program, nor
its registries us. It also starts quicker, since none of the client's packages is imported.

Message classes are made one at a time, on first use, straight from the JSON schemas that the
library ships; its modules of ready classes (with patches meant for its client) stay unloaded.
The names used here are private to the library, so its version is pinned (pyproject.toml) and
`tests/unit/wire` holds what we rely on.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import threading
import types
from typing import Any, Final

from kavka.wire import mending, place, quickening

_MODULES: Final = (
    "kafka.protocol.api_message",
    "kafka.protocol.schemas.fields.array",
    "kafka.protocol.schemas.fields.codecs.encode_buffer",
    "kafka.protocol.schemas.fields.codecs.types",
    "kafka.protocol.schemas.fields.codegen",
    "kafka.protocol.schemas.fields.simple",
    "kafka.protocol.schemas.fields.struct",
    "kafka.protocol.schemas.fields.struct_array",
)


_SCHEMA_LOADER: Final = "kafka.protocol.schemas.load_json"
_UTIL: Final = "kafka.util"
_OWN_SCHEMAS: Final = f"{__file__.rpartition('/')[0]}/schemas"
"""Of messages that the library has none of: names, types and versions as Apache Kafka has them."""

_COMMENT_LINES: Final = re.compile(r"(?m)^\s*//.*$")


def _is_library(name: str) -> bool:
    return name == "kafka" or name.startswith("kafka.")


def _load_private_copy() -> dict[str, types.ModuleType]:
    """Import the protocol modules apart from any `kafka` that the process already has."""
    users = {name: module for name, module in sys.modules.items() if _is_library(name)}
    for name in users:
        del sys.modules[name]
    try:
        found = place.find()
        stub = types.ModuleType("kafka")
        stub.__path__ = [found.root]
        sys.modules["kafka"] = stub
        sys.modules[_UTIL] = _util()
        sys.modules[_SCHEMA_LOADER] = _schema_loader(found.loader, found.root)
        return {name: importlib.import_module(name) for name in _MODULES}
    finally:
        for name in [name for name in sys.modules if _is_library(name)]:
            del sys.modules[name]
        sys.modules.update(users)


class _OfClass:
    """A property of a class."""

    def __init__(self, read: Any) -> None:
        self._read = read

    def __get__(self, _: object, owner: type) -> Any:
        return self._read(owner)


def _util() -> types.ModuleType:
    """In the place of the library's own module, which imports the errors of its client."""
    module = types.ModuleType(_UTIL)
    module.classproperty = _OfClass  # type: ignore[attr-defined]
    return module


def _schema_loader(files: Any, root: str) -> types.ModuleType:
    """In the place of the library's own module, which reads schemas by `importlib.resources`:
    the first one took 90 ms, most of it for what that imports."""

    def load_json(name: str, package: str | None = None) -> Any:
        try:
            data = files.get_data(f"{root}/protocol/schemas/resources/{name}.json")
        except FileNotFoundError:
            data = files.get_data(f"{_OWN_SCHEMAS}/{name}.json")
        schema = json.loads(_COMMENT_LINES.sub("", data.decode()))
        shared = {one["name"]: one["fields"] for one in schema.get("commonStructs", ())}
        _fill_in(schema["fields"], shared)
        return schema

    module = types.ModuleType(_SCHEMA_LOADER)
    module.load_json = load_json  # type: ignore[attr-defined]
    return module


def _fill_in(fields: list[Any], shared: dict[str, Any]) -> None:
    """Give fields of a shared struct's type that struct's fields."""
    for field in fields:
        name = field["type"].removeprefix("[]")
        if name in shared and "fields" not in field:
            field["fields"] = shared[name]
        _fill_in(field.get("fields", ()), shared)


_copy: Final = _load_private_copy()
_ApiMessage: Final[Any] = _copy["kafka.protocol.api_message"].ApiMessage
_classes: Final[dict[str, Any]] = {}

EncodeBuffer: Final[Any] = _copy["kafka.protocol.schemas.fields.codecs.encode_buffer"].EncodeBuffer
_CodegenContext: Final[Any] = _copy["kafka.protocol.schemas.fields.codegen"].CodegenContext

quickening.quicken(
    types=_copy["kafka.protocol.schemas.fields.codecs.types"],
    struct_field=_copy["kafka.protocol.schemas.fields.struct"],
    struct_array=_copy["kafka.protocol.schemas.fields.struct_array"],
    codegen=_copy["kafka.protocol.schemas.fields.codegen"],
)
mending.mend(
    types=_copy["kafka.protocol.schemas.fields.codecs.types"],
    simple=_copy["kafka.protocol.schemas.fields.simple"],
    array=_copy["kafka.protocol.schemas.fields.array"],
    struct=_copy["kafka.protocol.schemas.fields.struct"],
    struct_array=_copy["kafka.protocol.schemas.fields.struct_array"],
    codegen=_copy["kafka.protocol.schemas.fields.codegen"],
)


making: Final = threading.RLock()
"""Held while a class, a reader or a writer is made: the library's structs change meanwhile, and
a process may run several brokers, each in a thread of its own. What is made is read without it."""


def message_class(name: str) -> Any:
    """The class of the message `name` (`ProduceRequest`), made on first use (1 to 3 ms)."""
    found = _classes.get(name)
    if found is None:
        with making:
            found = _classes.get(name)
            if found is None:
                found = type(_ApiMessage)(name, (_ApiMessage,), {})
                mending.use_record_views(found._struct)
                _classes[name] = found
    return found


def reader_of(name: str, version: int, *, flexible: bool) -> Any:
    """The source of the reader that the library compiles of a message, with the names in it; as
    `encode_into__optimized_context`, which the library has for writers only. To be `making`."""
    made = message_class(name)
    struct = made._struct
    context = _CodegenContext()
    context.emit("", "def _decode(data, pos):")
    own, struct._data_class = struct._data_class, made
    try:
        struct.emit_decode_from(
            context, "obj", "    ", version=version, compact=flexible, tagged=flexible
        )
    finally:
        struct._data_class = own
    context.emit("    ", "return obj, pos")
    return context
