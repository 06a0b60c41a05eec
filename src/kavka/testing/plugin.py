"""The pytest plug-in: `kavka_broker`, `kavka_topic` and `kavka_cluster`, and settings by
`kavka_broker_settings`.

pytest loads it by its entry point in every run where Kavka is installed, so it imports nothing of
the broker until a fixture is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from kavka.testing import Broker, Cluster

_TOPIC_CHARS_MAX: Final = 200
"""Of a test's name in a topic's, which may have 249 characters."""

_NOT_IN_TOPICS: Final = re.compile(r"[^a-zA-Z0-9._-]+")
_numbers: Final = count(1)


@pytest.fixture(scope="session")
def kavka_broker_settings() -> Mapping[str, object]:
    """Settings of `kavka_broker`, by Apache Kafka's names: override it in a conftest.py."""
    return {}


@pytest.fixture(scope="session")
def kavka_broker(kavka_broker_settings: Mapping[str, object]) -> Iterator[Broker]:
    """A Kafka broker (`kavka.testing.Broker`), shared by all tests of the session; under
    pytest-xdist one per worker."""
    from kavka.testing import Broker

    with Broker(settings=kavka_broker_settings) as broker:
        yield broker


@pytest.fixture
def kavka_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three brokers of one test's own (`kavka.testing.Cluster`), which it may kill. The marker says
    how many, and their settings: `@pytest.mark.kavka_cluster(brokers=4, settings={...})`."""
    from kavka.testing import Cluster

    with Cluster(**_marked(request, "kavka_cluster", ("brokers", "racks", "settings"))) as cluster:
        yield cluster


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    for marker in (
        "kavka_topic(partitions=1, configs={}): partitions and configs of the fixture kavka_topic",
        "kavka_cluster(brokers=3, racks=(), settings={}): brokers of the fixture kavka_cluster",
    ):
        config.addinivalue_line("markers", marker)


@pytest.fixture
def kavka_topic(kavka_broker: Broker, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a new topic on `kavka_broker`, deleted after the test. It has one partition, or
    what the marker says: `@pytest.mark.kavka_topic(partitions=3)`."""
    from kavka.testing import ApiError, ErrorCode

    name = _NOT_IN_TOPICS.sub("-", request.node.name)[:_TOPIC_CHARS_MAX]
    topic = f"{name}-{next(_numbers)}"
    marked = _marked(request, "kavka_topic", ("partitions", "configs"))
    kavka_broker.create_topic(topic, **{"partitions": 1, **marked})
    yield topic
    if not kavka_broker.is_running:
        return  # the test has stopped it
    try:
        kavka_broker.delete_topic(topic)
    except ApiError as refusal:
        if refusal.code not in (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # the test has deleted it
            ErrorCode.TOPIC_DELETION_DISABLED,  # by the session's settings
        ):
            raise


def _marked(request: pytest.FixtureRequest, name: str, allowed: tuple[str, ...]) -> dict[str, Any]:
    """What a test's marker says, by keyword. TypeError."""
    marker = request.node.get_closest_marker(name)
    if marker is None:
        return {}
    if marker.args or marker.kwargs.keys() - set(allowed):
        names = " and ".join(f"{one}=…" for one in allowed)
        raise TypeError(f"the marker {name} takes {names}, by keyword")
    return dict(marker.kwargs)
