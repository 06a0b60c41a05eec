"""How a connection to a transport and a dispatcher that the test plays ends, and what is answered
and done then."""

import asyncio
import struct
from typing import Any

import pytest

from kavka.server.connections.connection import (
    REASON_CHARS_MAX,
)
from kavka.server.connections.registry import ORPHANED_REQUESTS_MAX
from kavka.server.request.context import BadRequest
from kavka.wire.frame import ARENA_BYTES
from support.played_connection import (
    FAILS,
    REQUEST_MAX,
    UNSENDABLE,
    Scene,
    Transport,
    scene,
)
from support.virtual import run_until_idle


@pytest.mark.parametrize("first", [0, 1])
@scene
async def test_a_request_that_is_found_bad_late_closes_the_connection(
    s: Scene, /, first: int, caplog: pytest.LogCaptureFixture
) -> None:
    s.receive(b"aone", b"htwo", b"athree")
    done = [(s.script.applying[b"two"], None), (s.script.waiting[b"two"], BadRequest("no"))]
    for future, result in done[first], done[1 - first]:
        future.set_result(result)
    await run_until_idle()
    assert s.sent == b"one"
    assert s.transport.closed
    assert s.script.calls == [b"one", b"two"]
    (line,) = caplog.messages
    assert line.endswith("on PLAINTEXT: no")


@scene
async def test_a_bad_request_closes_after_what_was_answered(s: Scene, /) -> None:
    s.receive(b"aone", b"!", b"atwo")
    assert s.sent == b"one"
    assert s.transport.closed
    assert s.script.calls == [b"one", b""]


@scene
async def test_what_came_before_a_bad_request_is_answered(s: Scene, /) -> None:
    s.receive(b"wone", b"atwo", b"!", b"athree")
    assert not s.transport.closed
    assert not s.transport.reading
    s.script.waiting[b"one"].set_result(b"one")
    await run_until_idle()
    assert s.script.calls == [b"one", b"two", b""], "nothing is handled behind it"
    assert s.sent == b"onetwo"
    assert s.transport.closed


@scene
async def test_what_came_before_a_request_that_is_found_bad_late_is_answered(s: Scene, /) -> None:
    s.receive(b"wone", b"wtwo", b"wthree")
    s.script.waiting[b"two"].set_result(BadRequest("no"))
    s.script.waiting[b"three"].set_result(b"three")
    await run_until_idle()
    assert not s.transport.closed
    assert not s.transport.reading
    s.script.waiting[b"one"].set_result(b"one")
    await run_until_idle()
    assert s.sent == b"one"
    assert s.transport.closed


@scene
async def test_what_came_before_the_end_of_the_stream_is_answered(s: Scene, /) -> None:
    s.receive(b"wone", b"atwo", b"hthree")
    s.script.applying[b"three"].set_result(None)
    await run_until_idle()
    assert s.connection.eof_received(), "it stays open"
    s.script.waiting[b"three"].set_result(b"three")
    await run_until_idle()
    assert not s.transport.closed
    s.script.waiting[b"one"].set_result(b"one")
    await run_until_idle()
    assert s.sent == b"onetwothree"
    assert s.transport.closed


@pytest.mark.parametrize("first", [[b"wone", b"wtwo"], [b"wtwo"]])
@scene
async def test_a_request_that_is_not_applied_holds_its_memory_when_reading_ends(
    s: Scene, /, first: list[bytes]
) -> None:
    size = 2 * ARENA_BYTES
    s.receive(*first)
    s.receive_bytes(struct.pack(">i", size) + b"h" + bytes(1000))
    s.receive_bytes(bytes(size - 1001))
    memory = s.connections.request_memory
    s.script.waiting[b"two"].set_result(BadRequest("no"))
    await run_until_idle()
    assert memory.reserved_bytes == size + 4
    assert s.transport.closed == (b"wone" not in first), "it is still to be answered"
    if s.transport.closed:
        s.connection.connection_lost(None)
        assert memory.reserved_bytes == size + 4
    (applying,) = s.script.applying.values()
    applying.set_result(None)
    await run_until_idle()
    assert memory.reserved_bytes == 0


@scene
async def test_who_has_gone_is_not_waited_for_longer_than_idle(s: Scene, /) -> None:
    s.receive(b"wone")
    assert not s.connection.is_idle()
    s.connection.eof_received()
    assert s.connection.is_idle(), "its answer may wait for days"


@scene
async def test_an_answer_that_comes_late_and_can_t_be_sent_ends_the_connection(
    s: Scene, /, caplog: pytest.LogCaptureFixture
) -> None:
    s.receive(b"wone", b"wtwo", b"wthree")
    s.script.waiting[b"two"].set_result(UNSENDABLE)
    s.script.waiting[b"one"].set_result(b"one")
    s.script.waiting[b"three"].set_result(b"three")
    await run_until_idle()
    assert s.sent == b"one", "what stands before it is sent, and nothing behind it"
    assert s.transport.closed
    (line,) = caplog.messages
    assert line.endswith("on PLAINTEXT: can't be sent")


@scene
async def test_an_answer_that_fails_us_ends_the_connection(s: Scene, /) -> None:
    failures: list[Any] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, logged: failures.append(logged["exception"]))
    s.receive(b"wone")
    s.script.waiting[b"one"].set_result(FAILS)
    await run_until_idle()
    assert s.transport.closed
    assert [str(failure) for failure in failures] == ["our mistake"]


@scene
async def test_a_request_that_was_held_back_and_fails_us_ends_the_connection(s: Scene, /) -> None:
    s.script.throttle = 100
    s.receive(b"aone", b"a" + FAILS)
    with pytest.raises(ValueError, match="our mistake"):
        await s.tasks.advance(100)
    assert s.sent == b"one"
    assert s.transport.closed


@scene
async def test_a_connection_aborted_before_connection_made_is_closed(s: Scene, /) -> None:
    late = s.listening.factory("10.0.0.2")
    s.connections.forget(late)
    late.abort()
    transport = Transport()
    late.connection_made(transport)
    assert transport.closed


@scene
async def test_a_frame_over_the_limit_closes(s: Scene, /) -> None:
    room = s.connection.get_buffer(-1)
    room[:4] = struct.pack(">i", REQUEST_MAX + 1)
    s.connection.buffer_updated(4)
    assert s.transport.closed


@scene
async def test_one_line_logs_why_a_bad_request_closed_the_connection(
    s: Scene, /, caplog: pytest.LogCaptureFixture
) -> None:
    s.receive(b"aone", b"!", b"atwo")
    s.connection.connection_lost(None)
    assert s.connections.bad_requests.count == 1
    (line,) = caplog.messages
    assert line == "closing connection from 10.0.0.1:5555 on PLAINTEXT: garbage"


@pytest.mark.parametrize(
    ("reason", "logged"),
    [
        ("no topic a\nERROR b\x1b[31m", repr("no topic a\nERROR b\x1b[31m")),
        ("x" * 100_000, "x" * REASON_CHARS_MAX),
    ],
)
@scene
async def test_names_of_a_peer_can_t_forge_or_fill_the_log(
    s: Scene, /, reason: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    s.receive(b"!" + reason.encode())
    (line,) = caplog.messages
    assert line == f"closing connection from 10.0.0.1:5555 on PLAINTEXT: {logged}"


@scene
async def test_a_connection_closed_for_a_bad_request_holds_no_memory(s: Scene, /) -> None:
    size = 2 * ARENA_BYTES
    s.receive_bytes(struct.pack(">i", size) + b"!" + bytes(1000))
    assert s.connections.request_memory.reserved_bytes == size + 4
    s.receive_bytes(bytes(size - 1001))
    assert s.transport.closed
    assert s.connections.request_memory.reserved_bytes == 0
    assert s.arenas.in_use_bytes == 0


@scene
async def test_an_answer_that_never_comes_ends_the_connection(s: Scene, /) -> None:
    """Nothing behind it could be sent."""
    s.receive(b"wone")
    s.receive(b"wtwo")
    s.script.waiting[b"one"].cancel()
    await run_until_idle()
    assert s.transport.closed


@scene
async def test_what_was_read_is_done_when_the_connection_has_ended(s: Scene, /) -> None:
    s.receive(b"cone")
    s.connection.connection_lost(None)
    assert s.connections.orphaned_requests == 1
    await run_until_idle()
    assert s.script.done == [b"one"]
    assert s.connections.orphaned_requests == 0


@scene
async def test_no_connection_is_accepted_while_many_orphaned_requests_run(s: Scene, /) -> None:
    running = [s.tasks.future() for _ in range(ORPHANED_REQUESTS_MAX)]
    for request in running:
        s.connections.add_orphan(request)
    assert s.listening.paused
    running[0].set_result(None)
    await run_until_idle()
    assert not s.listening.paused


@scene
async def test_waits_end_with_the_connection(s: Scene, /) -> None:
    s.receive(b"wone")
    assert len(s.connections) == 1
    s.connection.connection_lost(None)
    assert s.script.waiting[b"one"].cancelled()
    assert len(s.connections) == 0
    await run_until_idle()
    assert s.sent == b""


@scene
async def test_the_end_of_the_stream_gives_the_arena_back(s: Scene, /) -> None:
    s.receive(b"a" + bytes(2 * ARENA_BYTES))
    assert len(s.connection.get_buffer(-1)) > ARENA_BYTES, "it may send as much again"
    assert s.arenas.in_use_bytes > 0
    assert not s.connection.eof_received()
    assert s.arenas.in_use_bytes == 0


@scene
async def test_a_partial_request_ends_with_the_connection(s: Scene, /) -> None:
    s.receive_bytes(struct.pack(">i", 3 * ARENA_BYTES) + bytes(ARENA_BYTES))
    assert s.arenas.in_use_bytes > 0
    s.connection.connection_lost(None)
    assert s.arenas.in_use_bytes == 0
