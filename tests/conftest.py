"""Fixtures for all tests. Those of one directory lie in its own conftest.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import java


@pytest.fixture(scope="session")
def kafka_libs() -> Path:
    """Apache Kafka's jars; without Java the test is skipped."""
    return java.kafka_libs()
