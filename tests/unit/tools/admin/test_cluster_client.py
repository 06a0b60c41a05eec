"""What tools know of a cluster, and ask again."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.tools.admin import cluster_client
from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.errors import Failed
from kavka.wire.apis.metadata import BrokerResponse

BROKER = BrokerResponse(1, "here", 9092, None)


def described(*brokers: BrokerResponse) -> Any:
    return SimpleNamespace(brokers=brokers, topics=[], controller_id=1, cluster_id="c")


async def test_a_broker_that_knows_of_none_while_it_starts_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As Apache Kafka with ZooKeeper, for some seconds."""
    answers: Iterator[Any] = iter((described(BROKER), described(), described(BROKER)))

    class Broker:
        def __init__(self, host: str, port: int, *_: object) -> None:
            assert (host, port) == ("here", 9092)

        async def ask(self, *_: object) -> Any:
            return next(answers)

    monkeypatch.setattr(cluster_client, "BrokerClient", Broker)
    nothing: Any = SimpleNamespace(random=None)
    client = ClusterClient("here:9092", nothing, nothing)
    await client.open()
    with pytest.raises(Failed, match="knows of no broker yet"):
        await client.topics_named(["t"])
    assert await client.topics_named(["t"]) == {}
    assert client.brokers == [BROKER]
