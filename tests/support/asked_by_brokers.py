"""Requests between brokers to a broker in memory, as Kavka's own client sends them."""

from __future__ import annotations

from typing import Any

from kavka.wire import client_frames
from kavka.wire.api import Api
from support.memory_broker import MemoryBroker, until


async def ask(broker: MemoryBroker, api: Api, request: Any) -> Any:
    """The response to a request in the newest version, over a connection of its own."""
    client = broker.connect()
    parts = client_frames.encode_request(api, api.highest, 1, "2", request)
    client.send_bytes(b"".join(map(bytes, parts)))
    await until(lambda: bool(client.frames), f"an answer to {api.name}")
    return client_frames.decode_response(api, api.highest, memoryview(client.frames[0]))
