"""A disk in memory and a broker's logs on it."""

from __future__ import annotations

import pytest

from kavka.log.memfs import MemFs
from support.logs import Broker


@pytest.fixture
def fs() -> MemFs:
    return MemFs()


@pytest.fixture
def broker(fs: MemFs) -> Broker:
    return Broker(fs)
