"""Responses from the metadata, of a broker that has just started."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from kavka.server.broker import Broker

if TYPE_CHECKING:
    from kavka.server.cluster.first_metadata import FirstMetadata


def once_described(broker: Broker, respond: Callable[[], Any]) -> Any:
    """`respond()`, which may be awaitable: at once, or when the controller has described the
    cluster to this broker."""
    first = broker.first_metadata
    if first is None or first.is_complete:
        return respond()
    return _later(first, respond)


async def _later(first: FirstMetadata, respond: Callable[[], Any]) -> Any:
    await first.wait()
    found = respond()
    return await found if isinstance(found, Awaitable) else found
