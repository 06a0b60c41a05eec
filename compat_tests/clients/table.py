"""The clients, one row each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kavka.compat_tests.clients import python
from kavka.compat_tests.driver import Program


class Client(NamedTuple):
    """One line of the matrix."""

    name: str
    """As options spell it."""
    title: str
    language: str
    install: Callable[[], Program]
    """How to start its driver; what it needs is there when this returns. Unavailable."""
    quick: bool = False
    """Whether the quick subset has it: one a language."""


CLIENTS: Final = (
    Client(
        "kafka-python",
        "kafka-python",
        "Python",
        python.here("kafka_python_driver.py", "kafka"),
        quick=True,
    ),
)
