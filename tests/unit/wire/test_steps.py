"""Work in pieces, driven to its end on the spot."""

from __future__ import annotations

import pytest

from kavka.wire.steps import Steps, run_at_once


def adding(*numbers: int) -> Steps[int]:
    total = 0
    for number in numbers:
        assert (yield None) is None
        total = yield sum, (total, number)
    return total


def test_jobs_are_done_and_their_results_sent() -> None:
    assert run_at_once(adding()) == 0
    assert run_at_once(adding(1, 2, 3)) == 6


def test_a_job_that_fails_ends_it() -> None:
    def failing() -> Steps[int]:
        number: int = yield int, "x"
        return number

    with pytest.raises(ValueError, match="invalid literal"):
        run_at_once(failing())


def test_a_failed_job_may_be_answered_for() -> None:
    def patient() -> Steps[int]:
        try:
            number: int = yield int, "x"
        except ValueError:
            number = yield int, "7"
        return number

    assert run_at_once(patient()) == 7
