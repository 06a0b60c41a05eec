"""Responses with other addresses: every version, byte for byte where the address stays."""

from __future__ import annotations

import struct
from random import Random

import pytest

from kavka.tools.tap.capture import RequestInfo
from kavka.tools.tap.rewriting import Addressed, BrokerAddress, may_hold_addresses
from kavka.wire import client_frames
from kavka.wire.known_apis import KEYS, known_api
from support import messages

HOLDERS = [
    (key, version)
    for key in KEYS
    if (api := known_api(key)) is not None
    for version in range(api.highest + 1)
    if may_hold_addresses(RequestInfo(key, version, 0))
]


def test_the_apis_with_addresses() -> None:
    assert sorted({key for key, _ in HOLDERS}) == [0, 1, 3, 10, 60, 78, 79]
    assert min(version for key, version in HOLDERS if key == 1) == 16


@pytest.mark.parametrize(("key", "version"), HOLDERS)
def test_only_the_addresses_change(key: int, version: int) -> None:
    api = known_api(key)
    assert api is not None
    chance = Random(key * 100 + version)
    moved = 0
    for _ in range(60):
        _, body = messages.drawn(api.response_name, version, chance)
        head = struct.pack(">i", 7) + (b"\0" if api.is_flexible(version) else b"")
        frame = head + body
        addressed = Addressed(RequestInfo(key, version, 0), frame)
        kept = b"".join(addressed.rewritten(lambda place: (place.host, place.port)))
        assert kept == struct.pack(">i", len(frame)) + frame

        places = list(addressed.brokers())
        moved += len(places)
        addressed = Addressed(RequestInfo(key, version, 0), frame)
        other = b"".join(addressed.rewritten(lambda place: (f"proxy-{place.node}", 9)))
        assert struct.unpack_from(">i", other) == (len(other) - 4,)
        client_frames.decode_response(api, version, memoryview(other)[4:])
        after = Addressed(RequestInfo(key, version, 0), other[4:]).brokers()
        assert list(after) == [
            BrokerAddress(place.node, f"proxy-{place.node}", 9) for place in places
        ]
    assert moved, "some had addresses"
