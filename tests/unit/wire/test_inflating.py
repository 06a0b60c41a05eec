"""Inflating and compressing, at once or in a thread; Python's gzip judges."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from kavka.wire import inflating
from kavka.wire.compression import Codec
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.inflating import (
    JOB_BYTES_MIN,
    JOINED_AT_ONCE_BYTES_MAX,
    compress_in_steps,
    decompress_in_steps,
    decompress_in_thread,
    free_in_steps,
    join_in_steps,
)
from kavka.wire.steps import Steps
from support.steps import run_and_look, stops_of


def walk(steps: Steps[Any]) -> tuple[list[Callable[..., Any]], bytes]:
    """What was asked of a thread, which is done here, and what came of it in the end."""
    calls: list[Callable[..., Any]] = []
    answer: Any = None
    while True:
        try:
            job = steps.send(answer)
        except StopIteration as end:
            return calls, bytes(end.value)
        assert isinstance(job, tuple)
        function, *args = job
        calls.append(function)
        try:
            answer = function(*args)
        except ApiError as failure:
            with pytest.raises(ApiError) as caught:
                steps.throw(failure)
            raise caught.value from None


def test_small_batches_are_decompressed_on_the_loop() -> None:
    records = b"record" * 100
    assert walk(decompress_in_steps(Codec.GZIP, memoryview(gzip.compress(records)))) == (
        [],
        records,
    )


def test_large_batches_are_decompressed_in_a_thread() -> None:
    """Whether its size is known before, or it grows over the limit."""
    stored = gzip.compress(bytes(JOB_BYTES_MIN), 0)
    assert len(stored) > JOB_BYTES_MIN
    calls, records = walk(decompress_in_steps(Codec.GZIP, memoryview(stored)))
    assert (len(calls), records) == (1, bytes(JOB_BYTES_MIN))

    grows = gzip.compress(bytes(JOB_BYTES_MIN * inflating.INFLATED_RATIO + 1))
    assert len(grows) < JOB_BYTES_MIN
    calls, records = walk(decompress_in_steps(Codec.GZIP, memoryview(grows)))
    assert (len(calls), len(records)) == (1, JOB_BYTES_MIN * inflating.INFLATED_RATIO + 1)


def test_batches_of_a_large_known_size_go_to_a_thread_at_once() -> None:
    records = b"record" * 100
    calls, inflated = walk(decompress_in_thread(Codec.GZIP, memoryview(gzip.compress(records))))
    assert (len(calls), inflated) == (1, records)
    assert walk(decompress_in_thread(Codec.NONE, memoryview(records))) == ([], records)


def test_damaged_records_are_corrupt() -> None:
    with pytest.raises(ApiError) as caught:
        walk(decompress_in_steps(Codec.GZIP, memoryview(gzip.compress(b"record" * 100)[:-20])))
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


def test_batches_that_decompress_over_the_limit_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inflating, "INFLATED_BYTES_MAX", JOB_BYTES_MIN * 10)
    fits = gzip.compress(bytes(JOB_BYTES_MIN * 10))
    assert len(walk(decompress_in_steps(Codec.GZIP, memoryview(fits)))[1]) == JOB_BYTES_MIN * 10
    with pytest.raises(ApiError) as caught:
        walk(
            decompress_in_steps(
                Codec.GZIP, memoryview(gzip.compress(bytes(JOB_BYTES_MIN * 10 + 1)))
            )
        )
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("size, jobs", [(32 * 1024, 0), (32 * 1024 + 1, 1)])
def test_large_batches_are_compressed_in_a_thread(size: int, jobs: int) -> None:
    calls, packed = walk(compress_in_steps(Codec.GZIP, bytes(size), 1))
    assert (len(calls), zlib.decompress(packed, 31)) == (jobs, bytes(size))


@pytest.mark.parametrize("more, jobs", [(0, []), (1, ["bytearray.join"])])
def test_large_parts_are_joined_in_a_thread(more: int, jobs: list[str]) -> None:
    parts = [b"ab", bytes(JOINED_AT_ONCE_BYTES_MAX - 2 + more)]
    whole, _, job_names = run_and_look(join_in_steps(parts, JOINED_AT_ONCE_BYTES_MAX + more))
    assert (job_names, bytes(whole)) == (jobs, b"".join(parts))


def test_large_results_are_returned_in_pieces() -> None:
    records = bytearray(10 * JOINED_AT_ONCE_BYTES_MAX)
    held = [len(records)]
    for _ in free_in_steps(records):
        held.append(len(records))
    assert len(records) < JOINED_AT_ONCE_BYTES_MAX
    assert all(after >= before // 2 - 1 for before, after in pairwise(held))
    assert stops_of(free_in_steps(bytearray(JOINED_AT_ONCE_BYTES_MAX))) == (0, [])
    assert stops_of(free_in_steps(bytes(JOINED_AT_ONCE_BYTES_MAX + 1))) == (0, [])
