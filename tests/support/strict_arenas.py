"""Arenas that show at once when a request is looked at for too long.

With `enforce` every arena, in any pool, is filled with a pattern when it is given back, and
the shared one before each read, whether or not there is a view of it; and an arena that is
to be used again while a view of it is left is an error, which names who holds the view. In
production such an arena is not used again: nothing breaks, and nothing shows.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from mmap import mmap
from types import FrameType
from typing import Any

from kavka.wire.frame import ARENA_BYTES, Arena, ArenaPool, Framer

PATTERN = b"\xdd"
REFERENCES_MAX = 8
"""Steps from a view to the function that knows it, by way of a decoded request."""

_PIECE = PATTERN * 4096
_SUSPENDED = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR


AS_IN_PRODUCTION: dict[str, Callable[..., Any]] = {
    name: getattr(ArenaPool, name) for name in ("release", "staging_buffer", "abandon")
}


class ViewedForTooLong(AssertionError):
    """Bytes of a request were still looked at when others were to be written in their place."""


_has_left_out = False
"""`gc.get_freeze_count` would say it, too, but counts: a tenth of a second for each test."""


def leave_out_all() -> None:
    """Before a test: leave all objects that there are now out of the searches below, which would
    take most of the tests' time."""
    global _has_left_out
    if not _has_left_out:
        gc.collect()
        gc.freeze()
        _has_left_out = True


def include_all() -> None:
    """Until the next test, search all objects."""
    global _has_left_out
    gc.unfreeze()
    _has_left_out = False


def fill(arena: Arena) -> None:
    """Write the pattern over all that was written since the last time: requests begin at its
    start, and the pattern is behind them."""
    view = arena.view
    for start in range(0, arena.size, len(_PIECE)):
        piece = view[start : start + len(_PIECE)]
        if bytes(piece) == _PIECE:
            return
        piece[:] = _PIECE


def viewers(arena: Arena) -> list[str]:
    """Who may yet look at an arena's bytes, other than its own view.

    A function that has ended looks at nothing, though a traceback that is still kept (by a log
    record, say) knows its variables.
    """
    gc.collect()  # tracebacks in reference cycles
    search = _Search()
    views: list[memoryview] = []
    held: list[list[Any]] = []
    for view in search.referrers(*gc.get_referents(arena.view)):
        if isinstance(view, memoryview) and view is not arena.view:
            held.append(search.live_holders(view, REFERENCES_MAX))
            views.append(view)
    if views and not any(held):
        held = _held_by_older(views)
    return [
        f"{len(view)} bytes, held by {', '.join(map(_described, holders))}"
        for view, holders in zip(views, held, strict=True)
        if holders
    ]


def _held_by_older(views: list[memoryview]) -> list[list[Any]]:
    """Of each view, what was left out by `leave_out_all` and refers to it: that counts as live."""
    younger = {id(item) for item in gc.get_objects()}
    include_all()
    return [
        [
            referrer
            for referrer in gc.get_referrers(view)
            if id(referrer) not in younger and not isinstance(referrer, FrameType)
        ]
        for view in views
    ]


def check_owned(args: Iterable[object]) -> None:
    """Refuse a job that looks at bytes which another owner has, or may get any time."""
    for arg in args:
        if isinstance(arg, list | tuple):
            check_owned(arg)
        elif isinstance(arg, memoryview) and _may_be_of_arena(arg.obj):
            (exporter,) = gc.get_referents(arg)
            for arena in gc.get_referrers(exporter):
                if isinstance(arena, Arena) and _is_borrowed(arena):
                    found.append(f"a job looks at {len(arg)} bytes of a request")
                    raise ViewedForTooLong(found[-1])


def _may_be_of_arena(viewed: object) -> bool:
    """To look for an arena among all objects takes long."""
    return isinstance(viewed, bytearray | mmap) and len(viewed) >= ARENA_BYTES


def _is_borrowed(arena: Arena) -> bool:
    """Whether others may write to it: it is where requests are read into, and no frame in it is
    held; or it is at rest."""
    for holder in gc.get_objects():
        if isinstance(holder, ArenaPool):
            if holder.staging is arena or arena in holder._free.get(arena.size, ()):
                return True
        elif isinstance(holder, Framer) and holder._arena is arena:
            return not holder._is_retained
    return False


class _Search:
    """Goes from bytes to the objects that can reach them."""

    def __init__(self) -> None:
        self._running = _running()
        self._own: list[object] = [self]  # what the search itself holds on to

    def referrers(self, *objects: object) -> list[Any]:
        found = gc.get_referrers(*objects)
        self._own += [objects, found]
        found = [referrer for referrer in found if not any(referrer is own for own in self._own)]
        self._own.append(found)
        return found

    def live_holders(self, held: object, depth: int) -> list[Any]:
        """What refers to it, unless only functions that have ended reach that."""
        holders = self.referrers(held)
        self._own.append(holders)
        return [holder for holder in holders if self._is_live(holder, depth)]

    def _is_live(self, holder: object, depth: int) -> bool:
        if isinstance(holder, FrameType):
            if id(holder) in self._running:
                return holder.f_code.co_filename != __file__
            return bool(holder.f_code.co_flags & _SUSPENDED)
        if depth == 0 or not self.referrers(holder):
            return True  # no known holder: a function that is being executed, perhaps
        return bool(self.live_holders(holder, depth - 1))


def _running() -> set[int]:
    """The functions that are being executed, by the ids of their frames."""
    found = set()
    for top in sys._current_frames().values():
        frame: FrameType | None = top
        while frame is not None:
            found.add(id(frame))
            frame = frame.f_back
    return found


def _described(holder: Any) -> str:
    if isinstance(holder, FrameType):
        code = holder.f_code
        return f"{code.co_qualname} ({code.co_filename}:{holder.f_lineno})"
    return f"{type(holder).__qualname__} {str(holder)[:200]}"


found: list[str] = []
"""What has been found since a test began, also if the error reached no caller."""


def _refuse(pool: ArenaPool, arena: Arena) -> None:
    if held := viewers(arena):
        found.append("; ".join(held))
        raise ViewedForTooLong(found[-1])


@contextmanager
def enforce() -> Iterator[None]:
    """Have it so, for all pools of this process; it may be so already."""
    release, staging_buffer = AS_IN_PRODUCTION["release"], AS_IN_PRODUCTION["staging_buffer"]

    def strict_release(pool: ArenaPool, arena: Arena) -> None:
        fill(arena)
        release(pool, arena)

    def strict_staging_buffer(pool: ArenaPool) -> memoryview:
        buffer: memoryview = staging_buffer(pool)
        fill(pool.staging)
        return buffer

    strict = {
        "release": strict_release,
        "staging_buffer": strict_staging_buffer,
        "abandon": _refuse,
    }
    before = {name: getattr(ArenaPool, name) for name in strict}
    for name, method in strict.items():
        setattr(ArenaPool, name, method)
    try:
        yield
    finally:
        for name, method in before.items():
            setattr(ArenaPool, name, method)


if sys.implementation.name != "cpython":  # pragma: no cover
    raise ImportError("views are counted by CPython's reference counts")
