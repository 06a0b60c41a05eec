"""A broker that is the controller."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.controlled_broker import ControlledCluster


@pytest.fixture
def cluster() -> Iterator[ControlledCluster]:
    """Not started yet. No timer may be left at the end."""
    cluster = ControlledCluster()
    yield cluster
    assert cluster.tasks.pending_timers == 0
