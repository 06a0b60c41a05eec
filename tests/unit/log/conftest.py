"""A disk in memory and a broker's logs on it; property tests on a busy machine: how long an example
takes is no finding."""

from __future__ import annotations

import pytest
from hypothesis import settings

from kavka.log.memfs import MemFs
from support.logs import Broker

settings.register_profile("busy machine", deadline=None)
settings.load_profile("busy machine")


@pytest.fixture
def fs() -> MemFs:
    return MemFs()


@pytest.fixture
def broker(fs: MemFs) -> Broker:
    return Broker(fs)
