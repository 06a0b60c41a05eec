"""Counts the error codes in a response, using the `error_code` fields of its API's schema.

As Apache Kafka counts errors (`AbstractResponse.errorCounts`): one for each `error_code`, at the
top level of the response and in its arrays; NONE counts too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, Final, TypeAlias

from kavka.wire.api import Api
from kavka.wire.codec import private_copy

Counts: TypeAlias = MutableMapping[int, int]
"""Error code -> count; a missing code must read as 0 (`Counter`, `defaultdict`)."""

Counter: TypeAlias = Callable[[Any], None]
"""Counts the codes of a response of one API."""

_FIELD: Final = "error_code"
_INDENT: Final = "    "


def error_counter(api: Api, counts: Counts) -> Counter:
    """A function that adds the error codes of an API's responses to `counts`; create it once.

    It is generated source with a loop for each array, like the codec's readers and writers, since
    it runs for every response.
    """
    names: dict[str, Any] = {"counts": counts}
    exec(counter_source(api), names)  # generated from names in the library's schemas
    made: Counter = names["count"]
    return made


def counter_source(api: Api) -> str:
    """Source of the function `count`, which adds to `counts`."""
    lines = ["def count(response):"]
    for path in error_paths(api):
        item = "response"
        for depth, name in enumerate(path, start=1):
            lines.append(f"{_INDENT * depth}for item{depth} in {item}.{name} or ():")
            item = f"item{depth}"
        lines.append(f"{_INDENT * (len(path) + 1)}counts[{item}.{_FIELD}] += 1")
    return "\n".join(lines)


def error_paths(api: Api) -> list[tuple[str, ...]]:
    """For each `error_code` the arrays around it, outermost first; () for one at the top level."""
    return list(_paths(private_copy.message_class(api.response_name)._struct.fields))


def _paths(fields: Any) -> Iterator[tuple[str, ...]]:
    for name, field in fields.items():
        if name == _FIELD:
            yield ()
        elif field.is_struct_array():
            for path in _paths(field.fields):
                yield (name, *path)
