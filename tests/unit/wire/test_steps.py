"""Work in pieces: where it pauses, and what it gives."""

from __future__ import annotations

from kavka.wire.steps import (
    ITEMS_A_STEP,
    QUICK_ITEMS_A_STEP,
    PauseCounter,
    Slices,
    each,
    run_to_completion,
    run_to_first_pause,
)


def test_a_few_are_done_at_once() -> None:
    done: list[int] = []
    assert list(each(range(ITEMS_A_STEP - 1), done.append)) == []
    assert done == list(range(ITEMS_A_STEP - 1))


def test_many_are_done_with_pauses() -> None:
    done: list[int] = []
    counts = [len(done) for _ in each(range(10), done.append, 4)]
    assert counts == [4, 8]
    assert done == list(range(10))


def test_a_pause_is_due_after_so_many_items_whatever_they_are() -> None:
    pauses = PauseCounter()
    half = QUICK_ITEMS_A_STEP // 2
    assert [pauses.is_due(half) for _ in range(4)] == [False, True, False, True]
    assert pauses.is_due(5 * QUICK_ITEMS_A_STEP)
    assert not pauses.is_due(1)


def _work(pauses: int) -> Slices[int]:
    yield from each(range(pauses), str, 1)
    return 7


def test_all_in_one_go() -> None:
    assert run_to_completion(_work(3)) == 7


def test_work_without_pauses_is_done_at_the_first_step() -> None:
    assert run_to_first_pause(_work(0)) == 7
    rest = run_to_first_pause(_work(2))
    assert not isinstance(rest, int)
    assert list(rest) == [None]
