"""Work in pieces: where it pauses, and what it gives."""

from __future__ import annotations

import asyncio

import pytest

from kavka.wire.steps import (
    ITEMS_PER_STEP,
    QUICK_ITEMS_PER_STEP,
    PauseCounter,
    Steps,
    each,
    run_at_once,
)


def test_a_few_are_done_at_once() -> None:
    done: list[int] = []
    assert list(each(range(ITEMS_PER_STEP - 1), done.append)) == []
    assert done == list(range(ITEMS_PER_STEP - 1))


def test_many_are_done_with_pauses() -> None:
    done: list[int] = []
    counts = [len(done) for _ in each(range(10), done.append, 4)]
    assert counts == [4, 8]
    assert done == list(range(10))


def test_a_pause_is_due_after_so_many_items_of_any_kind() -> None:
    pauses = PauseCounter()
    half = QUICK_ITEMS_PER_STEP // 2
    assert [pauses.is_due(half) for _ in range(4)] == [False, True, False, True]
    assert pauses.is_due(5 * QUICK_ITEMS_PER_STEP)
    assert not pauses.is_due(1)


def _work(pauses: int) -> Steps[int]:
    yield from each(range(pauses), str, 1)
    return 7


def test_at_once_pauses_are_skipped() -> None:
    assert run_at_once(_work(3)) == 7


def test_at_once_jobs_are_called_and_their_failures_thrown_into_the_work() -> None:
    def converting() -> Steps[str]:
        yield None
        number = yield int, "7"
        try:
            yield int, "x"
        except ValueError as failure:
            return f"{number}, then {failure}"
        return "no failure"

    assert run_at_once(converting()) == "7, then invalid literal for int() with base 10: 'x'"


def test_at_once_a_failure_that_the_work_does_not_catch_is_raised() -> None:
    def converting() -> Steps[None]:
        yield int, "x"

    with pytest.raises(ValueError, match="invalid literal"):
        run_at_once(converting())


def test_awaitables_need_an_event_loop() -> None:
    loop = asyncio.new_event_loop()

    def waiting() -> Steps[None]:
        yield loop.create_future()

    with pytest.raises(TypeError, match="needs an event loop"):
        run_at_once(waiting())
    loop.close()
