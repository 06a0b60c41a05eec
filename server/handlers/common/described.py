"""Answers from the metadata, of a broker that has just started."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from kavka.server.broker import Broker

if TYPE_CHECKING:
    from kavka.server.cluster.first_metadata import FirstMetadata


def once_described(broker: Broker, answer: Callable[[], Any]) -> Any:
    """`answer()`, which may be awaitable: at once, or when the controller has described the cluster
    to this broker."""
    first = broker.first_metadata
    if first is None or first.is_complete:
        return answer()
    return _later(first, answer)


async def _later(first: FirstMetadata, answer: Callable[[], Any]) -> Any:
    await first.wait()
    found = answer()
    return await found if isinstance(found, Awaitable) else found
