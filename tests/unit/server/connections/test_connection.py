"""One connection against a transport and a dispatcher that the test plays."""

import struct
from collections.abc import Callable

import pytest

from kavka.server.connections.connection import BYTES_PER_ITERATION_MAX, FRAMES_PER_ITERATION_MAX
from kavka.server.connections.in_flight import (
    FETCHES_IN_FLIGHT_MAX,
    IN_FLIGHT_MAX,
    OTHERS_IN_FLIGHT_MAX,
)
from kavka.wire.apis import fetch
from kavka.wire.frame import ARENA_BYTES, STASH_BYTES_MAX
from support.played_connection import (
    Scene,
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
async def test_what_is_behind_a_write_waits_for_it(s: Scene, /) -> None:
    s.receive(b"wone", b"wtwo")
    s.script.key = FETCH
    s.receive(b"athree")
    assert s.script.calls == [b"one", b"two"]
    assert not s.transport.reading
    s.script.waiting[b"two"].set_result(b"two")
    await run_until_idle()
    assert s.script.calls == [b"one", b"two"]
    assert not s.transport.reading
    s.script.waiting[b"one"].set_result(b"one")
    await run_until_idle()
    assert s.script.calls == [b"one", b"two", b"three"]
    assert s.sent == b"onetwothree"
    assert s.transport.reading


@scene
async def test_what_is_behind_a_task_waits_for_it(s: Scene, /) -> None:
    s.script.key = CREATE_TOPICS
    s.receive(b"cone", b"ctwo", b"athree")
    assert s.script.calls == [b"one"]
    await run_until_idle()
    assert s.script.calls == [b"one", b"two", b"three"]
    assert s.sent == b"onetwothree"


@scene
async def test_what_is_behind_a_read_does_not_wait(s: Scene, /) -> None:
    s.script.key = FETCH
    s.receive(b"wone")
    s.script.key = LIST_OFFSETS
    s.receive(b"wtwo")
    assert s.script.calls == [b"one", b"two"]


@scene
async def test_many_that_hold_others_up_weigh_no_more_than_others(s: Scene, /) -> None:
    for number in range(2 * IN_FLIGHT_MAX):
        name = b"%d" % number
        s.receive(b"h" + name)
        assert not s.transport.reading
        done = [(s.script.applying[name], None), (s.script.waiting[name], name)]
        for future, result in done if number % 2 else reversed(done):  # either word may be first
            future.set_result(result)
        await run_until_idle()
        assert s.transport.reading
    assert s.sent == b"".join(b"%d" % number for number in range(2 * IN_FLIGHT_MAX))


@scene
async def test_what_has_no_answer_after_all_takes_no_place(s: Scene, /) -> None:
    s.receive(b"hone", b"atwo")
    s.script.applying[b"one"].set_result(None)
    s.script.waiting[b"one"].set_result(None)
    await run_until_idle()
    assert s.sent == b"two"


@scene
async def test_reading_pauses_while_too_many_wait(s: Scene, /) -> None:
    s.receive(*[b"w%d" % i for i in range(IN_FLIGHT_MAX - FRAMES_PER_ITERATION_MAX)])
    await run_until_idle()
    s.receive(*[b"w%d" % (1000 + i) for i in range(FRAMES_PER_ITERATION_MAX + 5)])
    await run_until_idle()
    assert len(s.script.calls) == IN_FLIGHT_MAX
    assert not s.transport.reading
    s.script.waiting[b"0"].set_result(b"")
    await run_until_idle()
    assert len(s.script.calls) == IN_FLIGHT_MAX + 1
    for name in list(s.script.waiting):
        if not s.script.waiting[name].done():
            s.script.waiting[name].set_result(b"")
            await run_until_idle()
    for future in s.script.waiting.values():
        if not future.done():
            future.set_result(b"")
    await run_until_idle()
    assert s.transport.reading
    assert len(s.script.calls) == IN_FLIGHT_MAX + 5


LIST_OFFSETS, FETCH, CREATE_TOPICS = 2, 1, 19


@pytest.mark.parametrize(
    ("api_key", "most"),
    [(LIST_OFFSETS, OTHERS_IN_FLIGHT_MAX), (FETCH, FETCHES_IN_FLIGHT_MAX)],
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


def paused_by_unread_responses(s: Scene) -> bytes:
    s.transport.full = True
    s.script.arena = s.arenas.acquire(ARENA_BYTES)
    return framed(b"llent")


def paused_by_requests_in_flight(s: Scene) -> bytes:
    s.script.key = fetch.API.key
    return framed(b"wone", b"wtwo")


def paused_by_a_request_that_holds_back(s: Scene) -> bytes:
    s.script.is_produce = lambda frame: False  # type: ignore[method-assign]
    return framed(b"wone")


PAUSES = (
    paused_by_unread_responses,
    paused_by_requests_in_flight,
    paused_by_a_request_that_holds_back,
)


def framed(*frames: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


def resume(s: Scene) -> None:
    """Let go on what any of these has paused."""
    for name, future in s.script.waiting.items():
        future.set_result(name)
    if s.transport.full:
        s.transport.drained()


@pytest.mark.parametrize("rest", [10, ARENA_BYTES // 2, ARENA_BYTES + 1000])
@pytest.mark.parametrize("paused", PAUSES)
@scene
async def test_a_handled_request_holds_no_memory(
    s: Scene, /, paused: Callable[[Scene], bytes], rest: int
) -> None:
    """Whatever keeps the requests behind it from being handled; they are, and hold some if big."""
    big = framed(b"a" + b"b" * 2 * ARENA_BYTES)
    behind = paused(s)
    lent_bytes = s.arenas.in_use_bytes
    last = framed(b"a" + b"l" * rest)
    s.receive_bytes(big[:1000])
    memory = s.connections.request_memory
    assert memory.reserved_bytes == len(big)
    s.receive_bytes(big[1000:] + behind + last)
    assert not s.transport.reading
    is_big = len(last) > ARENA_BYTES
    assert memory.reserved_bytes == (len(last) if is_big else 0)
    is_stashed = paused is paused_by_a_request_that_holds_back and len(last) <= STASH_BYTES_MAX
    held = 2 * ARENA_BYTES if is_big else 0 if is_stashed else ARENA_BYTES
    assert s.arenas.in_use_bytes - lent_bytes == held
    assert s.script.calls[-1] != b"l" * rest
    resume(s)
    await run_until_idle()
    assert s.script.calls[-1] == b"l" * rest
    assert s.sent.endswith(b"l" * rest)
    assert memory.reserved_bytes == 0
    assert s.arenas.in_use_bytes == 0


@scene
async def test_a_request_that_is_applied_holds_no_arena_while_it_waits(s: Scene, /) -> None:
    """Though its frame was to be kept: as a message set that is converted at once."""
    big = framed(b"k" + bytes(2 * ARENA_BYTES))
    s.receive_bytes(big[:1000])
    s.receive_bytes(big[1000:] + framed(b"wone", b"atwo"))
    assert s.script.calls[-1] == b"two"
    assert s.connections.request_memory.reserved_bytes == 0
    assert s.arenas.in_use_bytes == 0


@scene
async def test_a_request_that_is_read_holds_its_memory_until_then(s: Scene, /) -> None:
    big = framed(b"h" + bytes(2 * ARENA_BYTES))
    s.receive_bytes(big[:1000])
    s.receive_bytes(big[1000:] + framed(b"wone", b"atwo"))
    memory = s.connections.request_memory
    assert memory.reserved_bytes == len(big)
    s.transport.full = True
    (applying,) = s.script.applying.values()
    applying.set_result(None)
    await run_until_idle()
    assert memory.reserved_bytes == 0
    assert s.script.calls[-1] == b"two"


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
    assert s.sent == b"oneremembered two"


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
