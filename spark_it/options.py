"""The options of a pipeline: one row each, from which come the TOML file, the command line, the
commented example and the page in docs/.

A pipeline's options are a frozen dataclass whose fields are made by `option`. In Python they are
given by keyword. In a file and on the command line they have the same names, with `_` or `-`:

    @dataclass(frozen=True, kw_only=True)
    class Options:
        topic: str = option("the topic to write to", example="events")
        rate: float = option("records a second; 0 is no limit", default=0.0)
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from kavka.spark_it.errors import SparkError

T = TypeVar("T")

NO_TEXTS: Final[Mapping[str, str]] = MappingProxyType({})


def option(
    doc: str, *, default: Any = MISSING, example: str = "", choices: tuple[str, ...] = ()
) -> Any:
    """A field of an options class: required when it has no default.

    `example` is the value that the commented example file shows, as the command line takes it; the
    default is shown when there is none. `choices` are the only values that are allowed.
    """
    metadata = {"doc": doc, "example": example, "choices": choices}
    if isinstance(default, Mapping):  # which Python 3.11 takes for mutable
        return dataclasses.field(default_factory=lambda: default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Row:
    """One option of a pipeline, as the command line and the pages need it."""

    name: str
    kind: type
    """str, int, float, bool, tuple (of texts) or dict (of texts)."""
    doc: str
    default: Any
    """MISSING when the option is required."""
    example: str
    choices: tuple[str, ...]

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def required(self) -> bool:
        return self.default is MISSING


def rows(options: type) -> Iterator[Row]:
    """The options of an options class, in its order."""
    kinds = get_type_hints(options)
    for field in dataclasses.fields(options):
        yield Row(
            field.name,
            _kind(kinds[field.name]),
            field.metadata["doc"],
            NO_TEXTS if field.default_factory is not MISSING else field.default,
            field.metadata["example"],
            field.metadata["choices"],
        )


def _kind(annotation: Any) -> type:
    """str of `str | None`, tuple of `tuple[str, ...]`, dict of `Mapping[str, str]`."""
    origin = get_origin(annotation)
    if origin is None:
        assert isinstance(annotation, type)
        return annotation
    if origin is tuple:
        return tuple
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return dict
    (kind,) = (part for part in get_args(annotation) if part is not type(None))
    return _kind(kind)


def read_file(path: str) -> dict[str, Any]:
    """What a TOML file says. SparkError with file and line when it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return tomllib.load(file)
    except OSError as failure:
        raise SparkError(f"{path}: {failure.strerror}") from failure
    except tomllib.TOMLDecodeError as failure:
        raise SparkError(f"{path} is not TOML: {failure}") from failure


def converted(options: type, given: Mapping[str, Any], *, source: str = "") -> dict[str, Any]:
    """Names and values as an options class takes them; `source` names the file in errors.

    Values are of TOML's types or texts, as on the command line. SparkError names an unknown option
    with the nearest that there is, and a value of another type.
    """
    known = {row.name: row for row in rows(options)}
    where = f"{source}: " if source else ""
    values: dict[str, Any] = {}
    for key, value in given.items():
        name = key.replace("-", "_")
        if name not in known:
            raise SparkError(f"{where}unknown option {key}{nearest(name, known)}")
        values[name] = _value(known[name], value, where)
    return values


def build(options: type[T], given: Mapping[str, Any], *, source: str = "") -> T:
    """An object of an options class. SparkError as of `converted`, and for required ones that are
    missing."""
    values = converted(options, given, source=source)
    missing = [row for row in rows(options) if row.required and row.name not in values]
    if missing:
        raise SparkError("missing: " + ", ".join(f"{row.name} ({row.flag})" for row in missing))
    return options(**values)


def nearest(name: str, known: Iterable[str]) -> str:
    """ ", did you mean x?", or "" when nothing that is known resembles it."""
    found = difflib.get_close_matches(name, known, n=1)
    return f", did you mean {found[0]}?" if found else ""


def _value(row: Row, value: Any, where: str) -> Any:
    try:
        converted = _CONVERT[row.kind](value)
    except (TypeError, ValueError) as failure:
        raise SparkError(f"{where}{row.name}: {failure}") from failure
    if row.choices and converted not in row.choices:
        raise SparkError(f"{where}{row.name}: {value!r} is not one of {', '.join(row.choices)}")
    return converted


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError(f"{value!r} is not a whole number")
    try:
        return int(value)
    except ValueError:
        raise ValueError(f"{value!r} is not a whole number") from None


def _real(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError(f"{value!r} is not a number")
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{value!r} is not a number") from None


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value not in ("true", "false"):
        raise ValueError(f"{value!r} is neither true nor false")
    return bool(value == "true")


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if not isinstance(value, (list, tuple)) or not all(isinstance(part, str) for part in value):
        raise TypeError(f"{value!r} is not a list of texts")
    return tuple(value)


def _table(value: Any) -> Mapping[str, str]:
    """Texts by name: a table of TOML, or `key=value` of the command line (a list of them)."""
    if isinstance(value, Mapping):
        return MappingProxyType({key: _plain(part) for key, part in _flattened(value)})
    pairs = [value] if isinstance(value, str) else value
    parts = [pair.partition("=") for pair in pairs]
    for key, equals, _ in parts:
        if not equals or not key.strip():
            raise ValueError(f"{key!r} is not of the form key=value")
    return MappingProxyType({key.strip(): text for key, _, text in parts})


def _flattened(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """`a.b.c = 1` is three tables in TOML, and one name here."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flattened(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (str, int, float)):
        raise TypeError(f"{value!r} is not a text, a number or a truth value")
    return str(value)


_CONVERT: Final[Mapping[type, Any]] = {
    str: _text,
    int: _number,
    float: _real,
    bool: _flag,
    tuple: _texts,
    dict: _table,
}
