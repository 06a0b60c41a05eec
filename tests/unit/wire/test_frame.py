"""Frames out of a stream that arrives in any pieces."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.wire.frame import (
    ARENA_BYTES,
    FIRST_ARENA_BYTES_MAX,
    FREE_BYTES_MIN,
    IN_USE_BYTES_MAX,
    POOL_BYTES_MAX,
    RESPONSE_BYTES_MAX,
    STASH_BYTES_MAX,
    Arena,
    ArenaPool,
    FrameError,
    Framer,
    arena_bytes,
)

MIB = 1024 * 1024
LIMIT_BYTES = 100 * MIB


class CountingPool(ArenaPool):
    """A pool that knows what it has lent and what it had to make."""

    def __init__(self) -> None:
        super().__init__()
        self.lent: list[Arena] = []
        self.lent_bytes_max = 0
        self.sizes: list[int] = []

    def acquire(self, at_least: int) -> Arena:
        arena = super().acquire(at_least)
        assert arena.size >= at_least
        assert arena not in self.lent
        self.lent.append(arena)
        self.sizes.append(arena.size)
        self.lent_bytes_max = max(self.lent_bytes_max, sum(lent.size for lent in self.lent))
        return arena

    def detach_staging(self) -> Arena:
        cleared = super().detach_staging()
        self.lent[self.lent.index(self.staging)] = cleared
        return cleared

    def release(self, arena: Arena) -> None:
        self.lent.remove(arena)
        super().release(arena)


@pytest.fixture
def pool() -> CountingPool:
    return CountingPool()


@pytest.fixture
def framer(pool: CountingPool) -> Framer:
    return Framer(pool, LIMIT_BYTES)


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def feed(framer: Framer, piece: bytes) -> Iterator[bytes]:
    """As a connection does: fill the buffer, take the frames, release the arena; a single frame is
    at times taken by the fast path."""
    for_single = count(1)
    while piece:
        room = framer.get_buffer()
        assert len(room) > 0
        size = min(len(room), len(piece))
        room[:size] = piece[:size]
        del room  # an arena that is viewed is not reused
        piece = piece[size:]
        if (frame := framer.single_frame(size)) is not None and next(for_single) % 2:
            taken, frame = bytes(frame), None
            yield taken
            continue
        framer.buffer_updated(size)
        while (frame := framer.next_frame()) is not None:
            yield bytes(frame)
        framer.release_or_stash()


def pieces(stream: bytes, cuts: list[int]) -> Iterator[bytes]:
    ends = sorted({min(cut, len(stream)) for cut in cuts}) + [len(stream)]
    start = 0
    for end in ends:
        yield stream[start:end]
        start = end


SIZES = st.integers(0, 200) | st.sampled_from(
    [
        FREE_BYTES_MIN - 4,
        FREE_BYTES_MIN,
        ARENA_BYTES - FREE_BYTES_MIN - 4,
        ARENA_BYTES - FREE_BYTES_MIN,
        ARENA_BYTES - 5,
        ARENA_BYTES - 4,
        ARENA_BYTES - 3,
        ARENA_BYTES + 1,
        3 * ARENA_BYTES,
    ]
)


@settings(max_examples=60)
@given(sizes=st.lists(SIZES, max_size=6), cuts=st.lists(st.integers(0, 2**20), max_size=12))
def test_any_split_gives_the_same_frames(sizes: list[int], cuts: list[int]) -> None:
    bodies = [bytes([65 + index % 26]) * size for index, size in enumerate(sizes)]
    pool = CountingPool()
    framer = Framer(pool, LIMIT_BYTES)
    found = [frame for piece in pieces(framed(*bodies), cuts) for frame in feed(framer, piece)]
    assert found == bodies
    assert pool.lent == []


@settings(max_examples=20)
@given(step=st.integers(1, 9), sizes=st.lists(st.integers(0, 30), min_size=1, max_size=8))
def test_a_stream_in_the_smallest_pieces(step: int, sizes: list[int]) -> None:
    stream = framed(*(bytes([index]) * size for index, size in enumerate(sizes)))
    framer = Framer(ArenaPool(), LIMIT_BYTES)
    parts = [stream[at : at + step] for at in range(0, len(stream), step)]
    assert [len(frame) for part in parts for frame in feed(framer, part)] == sizes


def test_frames_lie_in_the_arena_and_are_not_copied(pool: CountingPool, framer: Framer) -> None:
    stream = framed(b"first", b"second")
    framer.get_buffer()[: len(stream)] = stream
    framer.buffer_updated(len(stream))
    first, second = framer.next_frame(), framer.next_frame()
    assert first is not None
    assert second is not None
    assert first.obj is second.obj is pool.lent[0].buffer
    assert (bytes(first), bytes(second)) == (b"first", b"second")
    first[:5] = b"FIRST"  # offsets are written in place
    assert bytes(first) == b"FIRST"


def test_a_frame_that_is_put_back_comes_again(framer: Framer) -> None:
    stream = b"".join(struct.pack(">i", 3) + data for data in (b"one", b"two"))
    framer.get_buffer(-1)[: len(stream)] = stream
    framer.buffer_updated(len(stream))
    for expected in (b"one", b"two"):
        frame = framer.next_frame()
        assert frame is not None
        assert bytes(frame) == expected
        framer.put_back(frame)
        assert framer.next_frame() == frame
    assert framer.next_frame() is None


@pytest.mark.parametrize("behind", [0, 100, ARENA_BYTES, 2 * ARENA_BYTES])
def test_what_lies_behind_a_big_frame_keeps_no_more_than_its_own_size(
    pool: CountingPool, framer: Framer, behind: int
) -> None:
    first, second = bytes(5 * ARENA_BYTES), b"s" * behind
    stream = framed(first, second)
    while stream:
        assert framer.next_frame() is None
        room = framer.get_buffer()
        size = min(len(room), len(stream))
        room[:size] = stream[:size]
        del room
        framer.buffer_updated(size)
        stream = stream[size:]
    assert bytes(framer.next_frame() or b"") == first
    held = 4 + behind
    assert framer.shrink() == held
    assert framer.shrink() == held, "there is nothing more to do"
    assert pool.in_use_bytes == arena_bytes(held + FREE_BYTES_MIN)
    assert bytes(framer.next_frame() or b"") == second
    assert framer.shrink() == 0
    assert pool.in_use_bytes == 0


def test_two_framers_share_one_arena() -> None:
    pool = CountingPool()
    first, second = Framer(pool, LIMIT_BYTES), Framer(pool, LIMIT_BYTES)
    for _ in range(10):
        assert list(feed(first, framed(b"one", b"more"))) == [b"one", b"more"]
        assert list(feed(second, framed(b"other", b"more"))) == [b"other", b"more"]
    assert pool.lent_bytes_max == ARENA_BYTES
    assert pool.allocated_bytes == 2 * ARENA_BYTES, "one, and the staging arena"


def test_a_single_frame_is_read_in_the_staging_arena(pool: CountingPool, framer: Framer) -> None:
    staging = pool.staging.buffer

    def looked_at(body: bytes) -> memoryview:
        stream = framed(body)
        framer.get_buffer()[: len(stream)] = stream
        frame = framer.single_frame(len(stream))
        assert frame is not None
        assert bytes(frame) == body
        assert frame.obj is staging
        return frame

    for body in (b"one", b"another", b"x" * (ARENA_BYTES - 4)):
        looked_at(body)
    assert pool.lent == []
    frame = looked_at(b"the last")  # which the fast path could not serve
    framer.buffer_updated(len(frame) + 4)
    assert framer.next_frame() == frame
    assert pool.lent[0].buffer is staging
    assert pool.staging.buffer is not staging
    framer.release_or_stash()
    assert pool.lent == []


@pytest.mark.parametrize(
    "stream",
    [
        *(framed(b"whole")[:size] for size in (1, 3, 4, 8)),
        framed(b"whole", b""),
        framed(b"whole") + b"\0",
        framed(b""),
        struct.pack(">i", -1),
        struct.pack(">i", -5) + b"five",
        framed(bytes(1001)),
    ],
)
def test_streams_that_are_no_single_frame(stream: bytes) -> None:
    framer = Framer(ArenaPool(), 1000)
    framer.get_buffer()[:8] = framed(b"left")
    framer.get_buffer()[: len(stream)] = stream
    assert framer.single_frame(len(stream)) is None


def test_the_rest_of_a_frame_is_no_single_frame() -> None:
    framer = Framer(ArenaPool(), LIMIT_BYTES)
    stream = framed(framed(b"inner"))
    found = []
    for piece in (stream[:4], stream[4:]):
        framer.get_buffer()[: len(piece)] = piece
        assert framer.single_frame(len(piece)) is None
        framer.buffer_updated(len(piece))
        if (frame := framer.next_frame()) is not None:
            found.append(bytes(frame))
        framer.release_or_stash()
    assert found == [framed(b"inner")]


def test_an_arena_is_kept_while_much_of_a_frame_lies_in_it(
    pool: CountingPool, framer: Framer
) -> None:
    body = bytes(range(256)) * (STASH_BYTES_MAX // 128)
    whole = framed(body)
    assert list(feed(framer, whole[: STASH_BYTES_MAX + 1])) == []
    assert len(pool.lent) == 1
    assert list(feed(framer, whole[STASH_BYTES_MAX + 1 :])) == [body]
    assert pool.lent == []


@pytest.mark.parametrize("begun", [1, 3, 4, 5, STASH_BYTES_MAX])
def test_the_beginning_of_a_frame_is_stashed_without_an_arena(
    pool: CountingPool, framer: Framer, begun: int
) -> None:
    body = bytes(range(256)) * (STASH_BYTES_MAX // 128)
    whole = framed(body)
    assert list(feed(framer, framed(b"before") + whole[:begun])) == [b"before"]
    assert pool.lent == []
    assert list(feed(framer, whole[begun:] + framed(b"after"))) == [body, b"after"]
    assert pool.lent == []


def test_a_stream_that_ends_within_a_frame_keeps_nothing(
    pool: CountingPool, framer: Framer
) -> None:
    assert list(feed(framer, framed(b"0123456789")[:6])) == []
    framer.close()
    assert list(feed(framer, framed(b"whole"))) == [b"whole"]
    assert list(feed(framer, framed(bytes(ARENA_BYTES))[: ARENA_BYTES // 2])) == []
    framer.close()
    assert pool.lent == []


@pytest.mark.parametrize("behind", [b"", b"then"])
def test_a_retained_frame_keeps_its_arena(
    pool: CountingPool, framer: Framer, behind: bytes
) -> None:
    stream = framed(b"held") + (framed(behind) if behind else b"")
    framer.get_buffer()[: len(stream)] = stream
    framer.buffer_updated(len(stream))
    frame = framer.next_frame()
    framer.retain_frame()
    framer.release_if_empty()
    (arena,) = pool.lent
    assert frame is not None and frame.obj is arena.buffer and bytes(frame) == b"held"
    framer.release_frame()
    assert pool.lent == ([arena] if behind else [])
    following = framer.next_frame()
    assert following == (behind or None)
    framer.release_or_stash()
    assert pool.lent == []


def test_a_retained_frame_outlives_its_connection(pool: CountingPool, framer: Framer) -> None:
    stream = framed(b"held", b"then")
    framer.get_buffer()[: len(stream)] = stream
    framer.buffer_updated(len(stream))
    frame = framer.next_frame()
    framer.retain_frame()
    framer.close()
    (arena,) = pool.lent
    assert frame is not None and frame.obj is arena.buffer and bytes(frame) == b"held"
    framer.release_frame()
    assert framer.next_frame() is None
    assert pool.lent == []


def test_the_pool_counts_bytes_in_use() -> None:
    pool = ArenaPool()
    assert pool.in_use_bytes == 0
    first, second = pool.acquire(1), pool.acquire(ARENA_BYTES + 1)
    assert pool.in_use_bytes == 3 * ARENA_BYTES
    pool.release(first)
    assert pool.in_use_bytes == 2 * ARENA_BYTES
    del second  # lost with its connection, and not given back
    assert pool.in_use_bytes == 0
    assert pool.allocated_bytes == 2 * ARENA_BYTES, "the first, and the staging arena"
    big = pool.acquire(POOL_BYTES_MAX)
    pool.release(big)  # too much to keep
    del big
    assert pool.in_use_bytes == 0
    assert pool.allocated_bytes == 2 * ARENA_BYTES


def test_responses_get_smaller_the_more_is_in_use() -> None:
    pool = ArenaPool()
    assert pool.response_bytes_max() == RESPONSE_BYTES_MAX
    held, sizes = [], []
    for _ in range(200):
        sizes.append(pool.response_bytes_max())
        held.append(pool.acquire(sizes[-1] // 2 + 1))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == ARENA_BYTES
    assert pool.in_use_bytes < IN_USE_BYTES_MAX + 200 * ARENA_BYTES
    held.clear()
    assert pool.response_bytes_max() == RESPONSE_BYTES_MAX


def test_a_frame_that_is_announced_and_never_sent_costs_no_memory(
    pool: CountingPool, framer: Framer
) -> None:
    assert list(feed(framer, struct.pack(">i", LIMIT_BYTES) + b"the beginning")) == []
    assert pool.lent == []
    for _ in range(3):
        framer.get_buffer()
    assert pool.lent_bytes_max == ARENA_BYTES


def test_a_big_frame_gets_memory_as_it_arrives(pool: CountingPool, framer: Framer) -> None:
    body = bytes(3 * MIB)
    stream = framed(body)
    sent = 0
    found: list[bytes] = []
    for at in range(0, len(stream), 64 * 1024):
        part = stream[at : at + 64 * 1024]
        found += feed(framer, part)
        sent += len(part)
        assert sum(arena.size for arena in pool.lent) <= max(ARENA_BYTES, 2 * sent + MIB)
    assert found == [body]


def test_a_very_big_frame_is_moved_once_and_counts_as_it_arrives(
    pool: CountingPool, framer: Framer
) -> None:
    body = bytes(range(256)) * (40 * MIB // 256)
    stream = framed(body, b"and one more")
    sent = 0
    found: list[bytes] = []
    for at in range(0, len(stream), 64 * 1024):
        part = stream[at : at + 64 * 1024]
        found += feed(framer, part)
        sent += len(part)
        assert pool.in_use_bytes <= max(ARENA_BYTES, 2 * sent + MIB)
        assert found or pool.in_use_bytes >= sent - len(part), "what has come is known of"
    assert found == [body, b"and one more"]
    assert [size for size in pool.sizes if size > FIRST_ARENA_BYTES_MAX] == [64 * MIB]
    assert pool.lent == []
    assert pool.in_use_bytes == 0


def test_consecutive_very_big_frames(pool: CountingPool, framer: Framer) -> None:
    bodies = [bytes([number]) * (5 + number) * MIB for number in range(4)]
    for _ in range(2):
        assert list(feed(framer, framed(*bodies))) == bodies
        assert pool.in_use_bytes == 0


def test_the_next_big_frame_finds_an_arena_of_its_size(pool: CountingPool, framer: Framer) -> None:
    body = bytes(MIB)
    assert list(feed(framer, framed(body))) == [body]
    pool.sizes.clear()
    assert list(feed(framer, framed(body))) == [body]
    assert pool.sizes == [2 * MIB]


def test_one_huge_frame_does_not_make_all_later_reads_huge(
    pool: CountingPool, framer: Framer
) -> None:
    body = bytes(9 * MIB)
    assert list(feed(framer, framed(body))) == [body]
    pool.sizes.clear()
    assert list(feed(framer, framed(b"small"))) == [b"small"]
    assert pool.sizes == [FIRST_ARENA_BYTES_MAX]


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
def test_a_size_that_cannot_be_is_refused(size: int) -> None:
    framer = Framer(ArenaPool(), 1000)
    with pytest.raises(FrameError, match=r"negative request size|socket\.request\.max\.bytes"):
        list(feed(framer, struct.pack(">i", size)))


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (bytes.fromhex("16030100c8010000c40303"), "a TLS handshake"),  # RFC 8446, 5.1
        (b"GET / HTTP/1.1\r\n", "an HTTP request"),
        (b"POST /v1 HTTP/1.1\r\n", "an HTTP request"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "an HTTP request"),  # RFC 9113, 3.4
        (b"SSH-2.0-OpenSSH_9.6\r\n", r"socket\.request\.max\.bytes is 104857600"),
    ],
)
def test_other_protocols_are_recognised(first: bytes, said: str) -> None:
    with pytest.raises(FrameError, match=said):
        list(feed(Framer(ArenaPool(), LIMIT_BYTES), first))


def test_a_frame_of_the_greatest_size_passes() -> None:
    for limit in (1000, ARENA_BYTES - 4, ARENA_BYTES - FREE_BYTES_MIN, ARENA_BYTES):
        framer = Framer(ArenaPool(), limit)
        assert [len(frame) for frame in feed(framer, framed(bytes(limit)))] == [limit]


def test_frames_before_a_bad_size_are_returned() -> None:
    framer = Framer(ArenaPool(), 1000)
    found: list[bytes] = []
    with pytest.raises(FrameError):
        for frame in feed(framer, framed(b"good") + struct.pack(">i", -5)):
            found.append(frame)
    assert found == [b"good"]


def test_the_pool_has_a_limit() -> None:
    pool = ArenaPool()
    arenas = [pool.acquire(4 * MIB) for _ in range(12)]
    for arena in arenas:
        pool.release(arena)
    assert pool.allocated_bytes - ARENA_BYTES == 12 * 4 * MIB, "the test has references to all"
    free_bytes = pool.allocated_bytes - pool.in_use_bytes - ARENA_BYTES
    assert free_bytes == POOL_BYTES_MAX
    again = [pool.acquire(4 * MIB) for _ in range(8)]
    assert pool.allocated_bytes - pool.in_use_bytes == ARENA_BYTES, "the staging arena"
    assert all(arena in arenas for arena in again)


def test_sizes_of_arenas_are_powers_of_two() -> None:
    pool = ArenaPool()
    assert pool.acquire(1).size == ARENA_BYTES
    assert pool.acquire(ARENA_BYTES).size == ARENA_BYTES
    assert pool.acquire(ARENA_BYTES + 1).size == 2 * ARENA_BYTES
    assert pool.acquire(MIB).size == MIB
