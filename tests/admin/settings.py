"""The settings that cells change, and which of a broker's settings and APIs are compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from support import messages

BROKER_SETTING: Final = "message.max.bytes"
"""May be changed on one broker and on all."""

READ_ONLY_SETTING: Final = "num.partitions"
LOGGER: Final = "root"

SET_IN_TESTS: Final = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dirs",
        "node.id",
        "offsets.topic.replication.factor",
        "process.roles",
        "share.coordinator.state.topic.min.isr",
        "share.coordinator.state.topic.replication.factor",
        "transaction.state.log.min.isr",
        "transaction.state.log.replication.factor",
    }
)
"""What the two brokers are started with, each with its own."""


def chosen(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of a broker's settings those that are Apache Kafka's and that nobody has set."""
    return {
        name: one
        for name, one in settings.items()
        if name not in SET_IN_TESTS and not name.startswith("kavka.")
    }


def served(versions: Mapping[str, Any]) -> dict[str, Any]:
    """Of APIs by name those that Kavka serves."""
    names = {module.API.name for module in messages.api_modules().values()}
    return {name: one for name, one in versions.items() if name in names}
