"""Which error codes an answer holds, found by the places that its API's schema has for them.

Apache Kafka counts errors that way (`AbstractResponse.errorCounts`): one for each `error_code`,
at the top of the answer and in its lists, no error included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from operator import attrgetter
from typing import Any, Final, TypeAlias

from kavka.wire import library
from kavka.wire.api import Api

Counts: TypeAlias = MutableMapping[int, int]
"""Error code -> how often; must give 0 for a code that it lacks (`Counter`, `defaultdict`)."""

Counter: TypeAlias = Callable[[Any, Counts], None]
"""Adds the codes of an answer of one API."""

_FIELD: Final = "error_code"


def error_counter(api: Api) -> Counter:
    """The counter of one API's answers. Made once: it reads the schema."""
    counters = [_at(path) for path in error_paths(api)]
    if len(counters) == 1:
        return counters[0]

    def count(response: Any, counts: Counts) -> None:
        for counter in counters:
            counter(response, counts)

    return count


def error_paths(api: Api) -> list[tuple[str, ...]]:
    """The lists to go through, outermost first, to each error code; () for one at the top."""
    return list(_paths(library.message_class(api.response_name)._struct.fields))


def _paths(fields: Any) -> Iterator[tuple[str, ...]]:
    for name, field in fields.items():
        if name == _FIELD:
            yield ()
        elif field.is_struct_array():
            for path in _paths(field.fields):
                yield (name, *path)


def _at(path: tuple[str, ...]) -> Counter:
    """A counter of the codes at one place; a loop for each list on the way is the quickest."""
    if not path:
        return _top
    get = attrgetter(path[0])
    if len(path) == 1:

        def count(response: Any, counts: Counts) -> None:
            for item in get(response) or ():
                counts[item.error_code] += 1

        return count
    inner = _at(path[1:])

    def count_within(response: Any, counts: Counts) -> None:
        for item in get(response) or ():
            inner(item, counts)

    return count_within


def _top(response: Any, counts: Counts) -> None:
    counts[response.error_code] += 1
