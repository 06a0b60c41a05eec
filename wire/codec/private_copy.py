"""kafka-python's schema-driven codec, loaded as a private copy.

Private, because a test may run the broker in a process that imports kafka-python itself: our
patches (`kavka.wire.codec.patches`) and message classes must not affect that program, nor its
class registries ours. Start-up is also faster, since the client's packages are not imported.

The files are those of the installed library, or of a vendored copy: a program may need
kafka-python 2, whose codec differs, and an environment can have only one version. A vendored copy
is installed by `pip install --no-deps --target` into the directory `codec` among Kavka's modules,
which is searched first.

Message classes are created one at a time, on first use, from the JSON schemas that the library
ships; its modules of message classes (with patches for its client) are not loaded. The names used
here are private to the library, so its version is pinned (pyproject.toml) and `tests/unit/wire`
tests what we rely on.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import threading
import types
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from kavka import __path__ as _PACKAGE
from kavka.wire.codec import patches, speedups

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
_KAVKA_SCHEMAS: Final = f"{__file__.rpartition('/')[0]}/schemas"
"""Apache Kafka's schemas of messages that the library lacks."""

_COMMENT_LINES: Final = re.compile(r"(?m)^\s*//.*$")


REQUIRED_VERSION: Final = "kafka-python>=3.0.12,<3.1"
_LEAST: Final = (3, 0, 12)
_BELOW: Final = (3, 1)
_VERSION: Final = re.compile(rb"__version__ *= *['\"](\d+)\.(\d+)(?:\.(\d+))?")

VENDORED_DIRECTORY: Final = f"{_PACKAGE[0]}/codec"
"""Where a vendored copy of kafka-python is searched first."""


class CodecLocation(NamedTuple):
    """Where the `kafka` package with the codec is."""

    loader: Any
    """Reads its files: `get_data(path)`."""
    root: str


def find_codec() -> CodecLocation:
    """Find a supported version of the codec. ImportError, saying what to do, if there is none."""
    for spec in (PathFinder.find_spec("kafka", [VENDORED_DIRECTORY]), find_spec("kafka")):
        if spec is None or not spec.submodule_search_locations or spec.loader is None:
            continue
        place = CodecLocation(spec.loader, spec.submodule_search_locations[0])
        found = _version(place)
        if _LEAST <= found < _BELOW:
            return place
        raise _missing(f"kafka-python {'.'.join(map(str, found))} in {place.root} is not supported")
    raise _missing("it is not installed")


def _version(place: CodecLocation) -> tuple[int, ...]:
    try:
        text = place.loader.get_data(f"{place.root}/version.py")
    except OSError:
        return (0,)
    found = _VERSION.search(text)
    return tuple(int(part or 0) for part in found.groups()) if found else (0,)


def _missing(why: str) -> ImportError:
    return ImportError(
        f"Kavka needs the codec of {REQUIRED_VERSION}: {why}. Install that version, or give Kavka "
        "a copy of its own beside yours: "
        f"pip install --no-deps --target '{VENDORED_DIRECTORY}' '{REQUIRED_VERSION}'",
        name="kafka",
    )


def _is_library(name: str) -> bool:
    return name == "kafka" or name.startswith("kafka.")


def _load_private_copy() -> dict[str, types.ModuleType]:
    """Import the protocol modules separately from any `kafka` that is already imported."""
    users = {name: module for name, module in sys.modules.items() if _is_library(name)}
    for name in users:
        del sys.modules[name]
    try:
        found = find_codec()
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
    """Replaces the library's module, which imports the errors of its client."""
    module = types.ModuleType(_UTIL)
    module.classproperty = _OfClass  # type: ignore[attr-defined]
    return module


def _schema_loader(files: Any, root: str) -> types.ModuleType:
    """Replaces the library's module, which reads schemas by `importlib.resources`: importing that
    took most of the 90 ms of the first schema."""

    def load_json(name: str, package: str | None = None) -> Any:
        try:
            data = files.get_data(f"{root}/protocol/schemas/resources/{name}.json")
        except FileNotFoundError:
            data = files.get_data(f"{_KAVKA_SCHEMAS}/{name}.json")
        schema = json.loads(_COMMENT_LINES.sub("", data.decode()))
        shared = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", ())}
        _fill_in(schema["fields"], shared)
        return schema

    module = types.ModuleType(_SCHEMA_LOADER)
    module.load_json = load_json  # type: ignore[attr-defined]
    return module


def _fill_in(fields: list[Any], shared: dict[str, Any]) -> None:
    """Copy the fields of common structs into the fields that have their type."""
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

speedups.apply_speedups(
    types=_copy["kafka.protocol.schemas.fields.codecs.types"],
    struct_field=_copy["kafka.protocol.schemas.fields.struct"],
    struct_array=_copy["kafka.protocol.schemas.fields.struct_array"],
    codegen=_copy["kafka.protocol.schemas.fields.codegen"],
)
patches.apply_patches(
    types=_copy["kafka.protocol.schemas.fields.codecs.types"],
    simple=_copy["kafka.protocol.schemas.fields.simple"],
    array=_copy["kafka.protocol.schemas.fields.array"],
    struct=_copy["kafka.protocol.schemas.fields.struct"],
    struct_array=_copy["kafka.protocol.schemas.fields.struct_array"],
    codegen=_copy["kafka.protocol.schemas.fields.codegen"],
)


compile_lock: Final = threading.RLock()
"""Held while a message class, decoder or encoder is compiled: that changes the library's structs,
and a process may run several brokers in threads. Finished ones are used without the lock."""


def message_class(name: str) -> Any:
    """The class of the message `name` (`ProduceRequest`), created on first use (1 to 3 ms)."""
    found = _classes.get(name)
    if found is None:
        with compile_lock:
            found = _classes.get(name)
            if found is None:
                found = type(_ApiMessage)(name, (_ApiMessage,), {})
                patches.use_record_views(found._struct)
                _classes[name] = found
    return found


def decoder_context(name: str, version: int, *, flexible: bool) -> Any:
    """The codegen context (source and globals) of a message's decoder; the library has the like
    only for encoders, `encode_into__optimized_context`. Call with `compile_lock` held."""
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
