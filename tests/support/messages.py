"""Random messages of every API that Kavka knows, as plain values that follow the schema.

One generator for the property tests, where hypothesis is the source of chance, and for the Java
check, where it is a seed. `Values` is {field name: value} with structs as `Values` again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from inspect import signature
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any, get_args, get_type_hints
from uuid import UUID

from kavka.compat_tests.raw.codec import schemas, stock_codec
from kavka.compat_tests.raw.codec.schemas import Values
from kavka.wire.api import Api

ITEMS_MAX = 3
TEXTS = ("", "a", "topic-1", "Ægir/テスト", "x" * 200)
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def known() -> list[tuple[ModuleType, int]]:
    """Each (module, version) that can be read and written."""
    return [
        (module, version)
        for module in schemas.api_modules().values()
        for version in range(module.API.lowest, module.API.highest + 1)
    ]


def title(module: ModuleType, version: int) -> str:
    """How a test names one of them."""
    return f"{module.API.name}-v{version}"


def response_name(api: Api) -> str:
    """`FetchResponse`."""
    return f"{api.name}Response"


# -- values ---------------------------------------------------------------------------------


def values(struct: Any, version: int, rnd: Random) -> Values:
    """Values for the fields of a version; tagged ones are left out half of the time."""
    return {
        field.name: _value(field, version, rnd)
        for field in struct._fields
        if field.for_version_q(version)
        and not (field.tagged_field_q(version) and rnd.randint(0, 1))
    }


def _value(field: Any, version: int, rnd: Random) -> Any:
    tagged = field.tagged_field_q(version)
    if field.nullable_for_version_q(version) and not tagged and rnd.randint(0, 4) == 0:
        return None
    if field.is_array() or field.is_struct_array():
        count = rnd.randint(1 if tagged else 0, ITEMS_MAX)
        return [_item(field.array_of, version, rnd) for _ in range(count)]
    return _item(field, version, rnd)


def _item(field: Any, version: int, rnd: Random) -> Any:
    if field._fields:
        found = values(field, version, rnd)
        while field.is_struct() and field.tag is not None and _all_default(field, found):
            found = values(field, version, rnd)  # Java leaves such a struct out
        return found
    return _scalar(field.type_str.removeprefix("[]"), rnd)


def _all_default(struct: Any, found: Values) -> bool:
    return all(found.get(field.name, field.default) == field.default for field in struct._fields)


def _scalar(kind: str, rnd: Random) -> Any:
    if kind in BITS:
        bound = 1 << (BITS[kind] - 1)
        return rnd.choice((0, -1, 1, 1 - bound, -bound, bound - 1, rnd.randint(-bound, bound - 1)))
    if kind == "uint16":
        return rnd.choice((0, 1, 0xFFFF, rnd.randint(0, 0xFFFF)))
    if kind == "float64":
        return rnd.choice((0.0, -1.5, float(rnd.randint(0, 10**6)) / 3))
    if kind == "bool":
        return bool(rnd.randint(0, 1))
    if kind == "string":
        return rnd.choice(TEXTS)
    if kind == "uuid":
        return rnd.choice((None, UUID(int=rnd.randint(1, (1 << 128) - 1))))
    if kind in ("records", "bytes"):
        return bytes([rnd.randint(0, 255)]) * rnd.choice((0, 1, 61, 300))
    raise NotImplementedError(kind)


# -- values as objects ----------------------------------------------------------------------


def drawn(name: str, version: int, rnd: Random) -> tuple[Values, bytes]:
    """Random values of a message, and the library's encoding of it."""
    struct = schemas.schema(name)
    found = values(struct, version, rnd)
    return found, stock_codec.encode(name, version, schemas.as_namespace(struct, found))


def as_answer(made: type, struct: Any, found: Values) -> Any:
    """Kavka's own answer object (`made`) of these values."""
    inner = nested(made)

    def make(inner_struct: Any, part: Values) -> Any:
        return as_answer(inner[field.name], inner_struct, part)

    given: dict[str, Any] = {}
    required = _required(made)
    for field in struct._fields:
        if field.name in found or field.name in required:
            given[field.name] = schemas.convert(field, found, make)
    return made(**given)


@cache
def _required(made: type) -> frozenset[str]:
    arguments = signature(made).parameters.values()
    return frozenset(argument.name for argument in arguments if argument.default is argument.empty)


def is_message(made: object) -> bool:
    """Whether this is a class of Kavka's answers, or of parts of them."""
    return isinstance(made, type) and made.__module__.startswith("kavka.wire.apis.")


@cache
def nested(made: type) -> dict[str, type]:
    """The answer classes that lie in the fields of `made`, by field name."""
    hints = get_type_hints(made)
    found = ((name, _message_in(hint)) for name, hint in hints.items())
    return {name: inner for name, inner in found if inner is not None}


def _message_in(hint: Any) -> type | None:
    if isinstance(hint, type) and is_message(hint):
        return hint
    inner = (_message_in(part) for part in get_args(hint))
    return next((found for found in inner if found is not None), None)


def for_library(answer: Any) -> Any:
    """The same answer as the library takes it: what is empty must be a list to it."""
    if is_message(answer.__class__):
        given = {name: for_library(getattr(answer, name)) for name in answer.__match_args__}
        return SimpleNamespace(**given)
    if isinstance(answer, list | tuple):
        return [for_library(item) for item in answer]
    return answer


def differences(struct: Any, found: Values, message: Any, path: str = "") -> Iterator[str]:
    """Where `message`, as read, is not these values; absent fields must read as the default."""
    for field in struct._fields:
        value = getattr(message, field.name)
        here = f"{path}.{field.name}"
        inner = field.array_of if field.is_struct_array() else field
        if field.name not in found:
            if value != field.default and not (value == () and field.default == []):
                yield f"{here}: {value!r} instead of the default"
        elif not getattr(inner, "_fields", None) or found[field.name] is None:
            if _plain(value) != found[field.name]:
                yield f"{here}: {value!r} instead of {found[field.name]!r}"
        else:
            yield from _inner_differences(inner, found[field.name], value, here)


def _inner_differences(struct: Any, found: Any, value: Any, path: str) -> Iterator[str]:
    expected: Sequence[Values] = found if isinstance(found, list) else [found]
    got = value if isinstance(found, list) else [value]
    if got is None or len(expected) != len(got):
        yield f"{path}: {got!r} instead of {len(expected)} items"
        return
    for index, (expected_item, item) in enumerate(zip(expected, got, strict=True)):
        yield from differences(struct, expected_item, item, f"{path}[{index}]")


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value


def is_served(module: ModuleType, field: Any) -> bool:
    """Whether any served version has this field."""
    first, last = field._versions
    return bool(first <= module.API.highest and last >= module.API.lowest)
