"""A process of our own for clients that must not share an interpreter with the main one."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Helper:
    """One child process that runs one function at a time; a context manager that ends it."""

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        self._pool.submit(os.getpid).result()  # pays for its start now

    def __enter__(self) -> Helper:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def start(
        self, function: Callable[P, T], /, *arguments: P.args, **named: P.kwargs
    ) -> Future[T]:
        """Run `function` there; its module is imported there by name."""
        return self._pool.submit(function, *arguments, **named)
