"""A high watermark that goes back in one leader epoch is found, and one behind what is stable."""

from __future__ import annotations

from cluster_faults.watermarks import Watermarks
from sim.history import History

PLACE = ("t", 0)


def violations(*said: tuple[int, int, int]) -> list[str]:
    """What is violated by these answers: leader epoch, high watermark, last stable offset."""
    history = History(lambda: 0.0)
    watermarks = Watermarks(history)
    for answer in said:
        watermarks.take(PLACE, *answer)
    assert watermarks.said == len(said)
    assert watermarks.last(PLACE) == said[-1][1]
    return history.violations


def test_it_goes_up() -> None:
    assert violations((1, 5, 5), (1, 5, 5), (1, 9, 7)) == []


def test_the_next_leader_may_begin_lower() -> None:
    assert violations((1, 5, 5), (2, 4, 4), (2, 6, 6)) == []


def test_it_goes_back() -> None:
    assert violations((2, 5, 5), (2, 4, 4)) == [
        "0.000 s: I6 high watermark: ('t', 0) went from 5 to 4 in leader epoch 2"
    ]


def test_it_goes_back_after_another_leader() -> None:
    assert len(violations((1, 5, 5), (2, 4, 4), (1, 4, 4))) == 1


def test_what_is_stable_is_not_committed() -> None:
    assert violations((1, 5, 6)) == [
        "0.000 s: I6 last stable offset: ('t', 0) is stable up to 6, and its high watermark is 5"
    ]
