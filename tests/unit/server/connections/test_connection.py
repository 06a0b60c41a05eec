"""One connection against a transport and a dispatcher that the test plays."""

import asyncio
import struct
from typing import Any

import pytest

from kavka.server.connections.connection import (
    BYTES_PER_ITERATION_MAX,
    FETCHES_UNANSWERED_MAX,
    FRAMES_PER_ITERATION_MAX,
    OTHERS_UNANSWERED_MAX,
    REASON_CHARS_MAX,
    UNANSWERED_MAX,
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


@scene
async def test_plain_answers_go_out_at_once(s: Scene, /) -> None:
    s.receive(b"aone", b"atwo")
    assert s.sent == b"onetwo"


@scene
async def test_answers_leave_in_the_order_of_requests(s: Scene, /) -> None:
    s.receive(b"wfirst", b"asecond", b"wthird", b"afourth")
    assert s.script.calls == [b"first", b"second", b"third", b"fourth"], "none waits to be handled"
    assert s.sent == b""
    s.script.waiting[b"third"].set_result(b"third")
    await run_until_idle()
    assert s.sent == b""
    s.script.waiting[b"first"].set_result(b"first")
    await run_until_idle()
    assert s.sent == b"firstsecondthirdfourth"


@scene
async def test_a_coroutine_is_run_and_a_failure_answered(s: Scene, /) -> None:
    s.receive(b"cone", b"wtwo")
    s.script.waiting[b"two"].set_exception(RuntimeError("boom"))
    await run_until_idle()
    assert s.sent == b"onefailed two"


@scene
async def test_no_answer_takes_no_place(s: Scene, /) -> None:
    s.receive(b"0none", b"aone")
    assert s.sent == b"one"


@scene
async def test_nothing_is_handled_before_what_a_request_asks_for_is_done(s: Scene, /) -> None:
    s.receive(b"wone", b"htwo", b"athree")
    assert s.script.calls == [b"one", b"two"]
    assert not s.transport.reading
    s.script.waiting[b"one"].set_result(b"one")
    await run_until_idle()
    assert s.script.calls == [b"one", b"two"], "the answer to another changes nothing"
    s.script.applying[b"two"].set_result(None)
    await run_until_idle()
    assert s.script.calls == [b"one", b"two", b"three"], "its answer may come later"
    assert s.transport.reading
    assert s.sent == b"one"
    s.script.waiting[b"two"].set_result(b"two")
    await run_until_idle()
    assert s.sent == b"onetwothree"


@scene
async def test_many_that_hold_others_up_weigh_no_more_than_others(s: Scene, /) -> None:
    for number in range(2 * UNANSWERED_MAX):
        name = b"%d" % number
        s.receive(b"h" + name)
        assert not s.transport.reading
        done = [(s.script.applying[name], None), (s.script.waiting[name], name)]
        for future, result in done if number % 2 else reversed(done):  # either word may be first
            future.set_result(result)
        await run_until_idle()
        assert s.transport.reading
    assert s.sent == b"".join(b"%d" % number for number in range(2 * UNANSWERED_MAX))


@scene
async def test_what_has_no_answer_after_all_takes_no_place(s: Scene, /) -> None:
    s.receive(b"hone", b"atwo")
    s.script.applying[b"one"].set_result(None)
    s.script.waiting[b"one"].set_result(None)
    await run_until_idle()
    assert s.sent == b"two"


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
async def test_nothing_is_handled_after_a_bad_request(s: Scene, /) -> None:
    s.receive(b"wone", b"!", b"atwo")
    assert s.transport.closed
    assert s.script.waiting[b"one"].cancelled(), "no client gets its answer"
    await run_until_idle()
    assert s.script.calls == [b"one", b""]
    assert s.sent == b""
    assert not s.transport.reading


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
    assert [str(one) for one in failures] == ["our mistake"]


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
async def test_reading_pauses_while_too_many_wait(s: Scene, /) -> None:
    s.receive(*[b"w%d" % i for i in range(UNANSWERED_MAX - FRAMES_PER_ITERATION_MAX)])
    await run_until_idle()
    s.receive(*[b"w%d" % (1000 + i) for i in range(FRAMES_PER_ITERATION_MAX + 5)])
    await run_until_idle()
    assert len(s.script.calls) == UNANSWERED_MAX
    assert not s.transport.reading
    s.script.waiting[b"0"].set_result(b"")
    await run_until_idle()
    assert len(s.script.calls) == UNANSWERED_MAX + 1
    for name in list(s.script.waiting):
        if not s.script.waiting[name].done():
            s.script.waiting[name].set_result(b"")
            await run_until_idle()
    for future in s.script.waiting.values():
        if not future.done():
            future.set_result(b"")
    await run_until_idle()
    assert s.transport.reading
    assert len(s.script.calls) == UNANSWERED_MAX + 5


LIST_OFFSETS, FETCH = 2, 1


@pytest.mark.parametrize(
    ("api_key", "most"),
    [(LIST_OFFSETS, OTHERS_UNANSWERED_MAX), (FETCH, FETCHES_UNANSWERED_MAX)],
)
@scene
async def test_requests_whose_answers_hold_much_wait_in_smaller_numbers(
    s: Scene, /, api_key: int, most: int
) -> None:
    s.script.key = api_key
    s.receive(*[b"a%d" % i for i in range(10)])  # answered at once, they do not count
    s.receive(b"wfirst", *[b"a%d" % i for i in range(most + 1)])
    assert s.script.calls[10:] == [b"first", *(b"%d" % i for i in range(most - 1))]
    assert not s.transport.reading
    s.script.waiting[b"first"].set_result(b"")
    await run_until_idle()
    assert len(s.script.calls) == 10 + most + 2
    assert s.transport.reading


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
async def test_a_connection_without_pending_responses_is_idle(s: Scene, /) -> None:
    assert s.connection.is_idle()
    s.receive(b"wone")
    assert not s.connection.is_idle()
    s.script.waiting[b"one"].set_result(b"one")
    await run_until_idle()
    assert s.connection.is_idle()
    s.script.throttle = 100
    s.receive(b"atwo")
    assert not s.connection.is_idle()


@scene
async def test_a_connection_that_does_not_read_is_idle(s: Scene, /) -> None:
    s.transport.full = True
    s.receive(b"aone")
    for unread_bytes, at_rest in [(900, False), (500, False), (500, True), (400, False)]:
        s.transport.unread_bytes = unread_bytes
        assert s.connection.is_idle() is at_rest


async def test_big_requests_wait_for_memory() -> None:
    size = 2 * ARENA_BYTES
    whole = struct.pack(">i", size) + b"a" + bytes(size - 1)
    first = Scene("queued.max.request.bytes=500000", "socket.request.max.bytes=500000")
    await first.connect()
    second = Scene()
    second.connections = first.connections
    await second.connect()
    memory = first.connections.request_memory
    first.receive_bytes(whole[:1000])
    assert memory.reserved_bytes == size + 4
    second.receive_bytes(whole[:1000])
    await run_until_idle()
    assert not second.transport.reading
    first.receive_bytes(whole[1000:])
    assert first.script.calls == [bytes(size - 1)]
    assert memory.reserved_bytes == 0
    await run_until_idle()
    assert second.transport.reading
    second.receive_bytes(whole[1000:50_000])
    assert memory.reserved_bytes == size + 4
    third = Scene()
    third.connections = first.connections
    await third.connect()
    third.receive_bytes(whole[:1000])
    third.connection.connection_lost(None)
    assert not memory._waiting, "who is gone is not remembered"
    second.connection.connection_lost(None)
    assert memory.reserved_bytes == 0


@scene
async def test_a_burst_is_handled_in_several_iterations(s: Scene, /) -> None:
    s.receive(*[b"a%d" % i for i in range(FRAMES_PER_ITERATION_MAX + 1)])
    assert len(s.script.calls) == FRAMES_PER_ITERATION_MAX
    assert not s.transport.reading
    await run_until_idle()
    assert len(s.script.calls) == FRAMES_PER_ITERATION_MAX + 1
    assert s.transport.reading


@scene
async def test_slow_requests_are_handled_in_several_iterations(s: Scene, /) -> None:
    s.receive(*[b"s%d" % i for i in range(5)])
    assert s.script.calls == [b"0", b"1"]
    assert not s.transport.reading
    await run_until_idle()
    assert s.script.calls == [b"0", b"1", b"2", b"3", b"4"]
    assert s.transport.reading


@scene
async def test_a_peer_that_does_not_read_its_answers_is_not_read(s: Scene, /) -> None:
    s.transport.full = True
    s.receive(b"aone")
    s.receive(b"atwo")
    assert s.script.calls == [b"one"]
    assert not s.transport.reading
    s.transport.drained()
    assert s.sent == b"onetwo"
    assert s.transport.reading


@scene
async def test_lent_buffers_are_returned_when_the_transport_has_written_them(s: Scene, /) -> None:
    big = 2 * ARENA_BYTES  # unlike the arena that requests are received into
    arena = s.script.arena = s.arenas.acquire(big)
    s.receive(b"lone")
    assert s.arenas.acquire(big) is arena, "given back at once"
    s.transport.full = True
    s.receive(b"ltwo")
    assert s.arenas.acquire(big) is not arena
    s.transport.drained()
    assert s.arenas.acquire(big) is arena


@scene
async def test_lent_buffers_do_not_come_back_from_a_write_that_fails(s: Scene, /) -> None:
    """The transport ends with it, and holds what it could not write until then."""
    big = 2 * ARENA_BYTES
    arena = s.script.arena = s.arenas.acquire(big)
    s.transport.broken = True
    s.receive(b"lone")
    assert s.arenas.acquire(big) is not arena


@scene
async def test_a_throttled_peer_is_muted_for_that_long(s: Scene, /) -> None:
    s.script.throttle = 100
    s.receive(b"aone")
    assert s.sent == b"one", "the answer itself goes out at once (KIP-219)"
    assert not s.transport.reading
    s.script.throttle = 0
    await s.tasks.advance(99)
    assert not s.transport.reading
    await s.tasks.advance(1)
    assert s.transport.reading


@scene
async def test_of_two_throttle_times_the_later_end_counts(s: Scene, /) -> None:
    s.receive(b"wone")
    s.receive(b"wtwo")
    for name, throttle in ((b"one", 100), (b"two", 50)):
        s.script.throttle = throttle
        s.script.waiting[name].set_result(name)
        await run_until_idle()
    assert s.sent == b"onetwo"
    s.script.throttle = 0
    await s.tasks.advance(99)
    assert not s.transport.reading, "the first answer said so"
    await s.tasks.advance(1)
    assert s.transport.reading


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
    for one in running:
        s.connections.add_orphan(one)
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
    s.receive_bytes(struct.pack(">i", 3 * ARENA_BYTES) + bytes(ARENA_BYTES))
    assert s.arenas.in_use_bytes > 0
    s.connection.connection_lost(None)
    assert s.arenas.in_use_bytes == 0


# -- remembered requests ----------------------------------------------------------------------


@scene
async def test_a_remembered_request_is_answered_without_a_handler(s: Scene, /) -> None:
    s.receive(b"rone")
    s.receive(b"rtwo", b"athree", b"rfour")
    assert s.sent == b"remembered oneremembered twothreeremembered four"
    assert s.script.calls == [b"three"]
    assert s.arenas.in_use_bytes == 0
    s.script.remembers = False
    s.receive(b"rfive")
    assert s.script.calls == [b"three", b"five"], "it is handled once"


@scene
async def test_a_remembered_request_does_not_overtake_one_that_waits(s: Scene, /) -> None:
    s.receive(b"wone")
    s.receive(b"rtwo")
    assert s.sent == b""
    s.script.waiting[b"one"].set_result(b"one")
    await run_until_idle()
    assert s.sent == b"onetwo"


@scene
async def test_a_remembered_request_waits_until_answers_are_read(s: Scene, /) -> None:
    s.transport.full = True
    s.receive(b"aone")
    assert s.transport.reading, "it is paused when more comes"
    s.receive(b"rtwo")
    assert s.sent == b"one"
    s.transport.drained()
    assert s.sent == b"oneremembered two"
    assert s.transport.reading


@scene
async def test_remembered_requests_count_towards_the_bytes_of_an_iteration(s: Scene, /) -> None:
    body = b"r" + bytes(BYTES_PER_ITERATION_MAX // 8)
    for _ in range(7):
        s.receive(body)
    assert s.transport.reading
    s.receive(body)
    assert not s.transport.reading
    await run_until_idle()
    assert s.transport.reading


@pytest.mark.parametrize("split", [1, 2, 3, 7])
async def test_frames_in_pieces(split: int) -> None:
    s = Scene()
    await s.connect()
    data = b"".join(struct.pack(">i", 4) + b"a%03d" % i for i in range(20))
    for start in range(0, len(data), split):
        piece = data[start : start + split]
        room = s.connection.get_buffer(-1)
        room[: len(piece)] = piece
        del room
        s.connection.buffer_updated(len(piece))
    assert s.sent == b"".join(b"%03d" % i for i in range(20))
