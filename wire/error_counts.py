"""Which error codes an answer holds, found by the places that its API's schema has for them.

Apache Kafka counts errors that way (`AbstractResponse.errorCounts`): one for each `error_code`,
at the top of the answer and in its lists, no error included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, Final, TypeAlias

from kavka.wire.api import Api
from kavka.wire.codec import private_copy

Counts: TypeAlias = MutableMapping[int, int]
"""Error code -> how often; must give 0 for a code that it lacks (`Counter`, `defaultdict`)."""

Counter: TypeAlias = Callable[[Any], None]
"""Adds the codes of an answer of one API."""

_FIELD: Final = "error_code"
_INDENT: Final = "    "


def error_counter(api: Api, counts: Counts) -> Counter:
    """What adds the codes of an API's answers to `counts`. Made once: it reads the schema.

    Written out as a function with a loop for each list, as the codec's readers and writers are:
    it runs for every answer.
    """
    names: dict[str, Any] = {"counts": counts}
    exec(counter_source(api), names)  # of names out of the library's schemas
    made: Counter = names["count"]
    return made


def counter_source(api: Api) -> str:
    """The function `count`, which adds to `counts`."""
    lines = ["def count(answer):"]
    for path in error_paths(api):
        item = "answer"
        for depth, name in enumerate(path, start=1):
            lines.append(f"{_INDENT * depth}for item{depth} in {item}.{name} or ():")
            item = f"item{depth}"
        lines.append(f"{_INDENT * (len(path) + 1)}counts[{item}.{_FIELD}] += 1")
    return "\n".join(lines)


def error_paths(api: Api) -> list[tuple[str, ...]]:
    """The lists to go through, outermost first, to each error code; () for one at the top."""
    return list(_paths(private_copy.message_class(api.response_name)._struct.fields))


def _paths(fields: Any) -> Iterator[tuple[str, ...]]:
    for name, field in fields.items():
        if name == _FIELD:
            yield ()
        elif field.is_struct_array():
            for path in _paths(field.fields):
                yield (name, *path)
