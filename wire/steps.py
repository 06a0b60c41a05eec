"""Long work in pieces, so that whoever drives it may let others have the loop in between.

`Steps[T]` is a generator that yields None where a pause is welcome, and a `Job` where it wants
something done that is long and releases the interpreter; it is sent the job's result, and returns
a `T`. Work that is short never yields. `kavka.server.slices` drives it on the loop.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")


Job: TypeAlias = tuple[Any, ...]
"""A call for a thread: the function and its arguments, which may not be changed meanwhile."""

Steps: TypeAlias = Generator[Job | None, Any, T]
