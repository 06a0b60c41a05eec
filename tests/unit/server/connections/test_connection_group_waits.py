"""Requests behind a JoinGroup or SyncGroup that waits, on a connection whose transport and
dispatcher the test plays."""

import struct

from kavka.wire.apis import join_group
from kavka.wire.frame import ARENA_BYTES
from support.played_connection import Scene, scene
from support.virtual import run_until_idle


@scene
async def test_each_waits_for_the_response_to_the_one_before(s: Scene, /) -> None:
    s.script.key = join_group.API.key
    s.receive(b"wjoin", b"wsync", b"abeat")
    assert not s.transport.reading
    s.script.waiting[b"join"].set_result(b"join")
    await run_until_idle()
    assert s.script.calls == [b"join", b"sync"]
    s.script.waiting[b"sync"].set_result(b"sync")
    await run_until_idle()
    assert s.sent == b"joinsyncbeat"
    assert s.transport.reading


@scene
async def test_a_small_request_holds_no_arena(s: Scene, /) -> None:
    s.script.key = join_group.API.key
    s.receive(b"wjoin")
    s.receive(b"afirst", b"asecond")
    await run_until_idle()
    assert s.script.calls == [b"join"]
    assert s.arenas.in_use_bytes == 0
    s.script.waiting[b"join"].set_result(b"join")
    await run_until_idle()
    assert s.sent == b"joinfirstsecond"
    assert s.arenas.in_use_bytes == 0


@scene
async def test_a_big_request_reserves_no_memory(s: Scene, /) -> None:
    """Others would wait for it, the member perhaps that the JoinGroup waits for."""
    s.script.key = join_group.API.key
    s.receive(b"wjoin")
    size = 2 * ARENA_BYTES
    data = struct.pack(">i", size) + b"a" + bytes(size - 1)
    s.receive_bytes(data[:1000])
    await run_until_idle()
    assert not s.transport.reading
    assert s.connections.request_memory.reserved_bytes == 0
    s.script.waiting[b"join"].set_result(b"join")
    await run_until_idle()
    assert s.connections.request_memory.reserved_bytes == size + 4
    s.receive_bytes(data[1000:])
    assert s.sent == b"join" + bytes(size - 1)
    assert s.connections.request_memory.reserved_bytes == 0


@scene
async def test_a_connection_is_lost_meanwhile(s: Scene, /) -> None:
    s.script.key = join_group.API.key
    s.receive(b"wjoin", b"abeat")
    s.connection.connection_lost(None)
    await run_until_idle()
    assert s.script.waiting[b"join"].cancelled()
    assert s.script.calls == [b"join"]
    assert s.arenas.in_use_bytes == 0
