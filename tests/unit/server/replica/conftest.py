"""A broker's replica manager."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.replicas import DATA, Hosting


@pytest.fixture
def hosting() -> Iterator[Hosting]:
    """With one log directory; its replicas are checked at the end."""
    yield from _checked(Hosting())


@pytest.fixture
def two_dirs() -> Iterator[Hosting]:
    """With the log directories /data and /more."""
    yield from _checked(Hosting(directories=(DATA, "/more")))


def _checked(hosting: Hosting) -> Iterator[Hosting]:
    yield hosting
    for replica in hosting.manager:
        replica.partition.check_invariants()
    assert not hosting.tasks.failures
