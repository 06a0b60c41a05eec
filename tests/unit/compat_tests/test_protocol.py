"""Rows of the part without clients, made of what a check found."""

from __future__ import annotations

from kavka.compat_tests.protocol import REASONS_MAX, lines, row
from kavka.compat_tests.raw.outcomes import ApiOutcome, Failure, Verdict


def failure(case: str, path: str = "a.0.b", why: str | None = None) -> Failure:
    return Failure(case, 1, "Fetch", path, 1, 2, why)


def test_known_differences_take_no_place_from_new_ones() -> None:
    known = [failure("old", f"a.{n}.{field}", "so") for n in range(30) for field in ("b", "c")]
    new = [failure(f"new {n}") for n in range(REASONS_MAX + 1)]
    found = row(ApiOutcome("Fetch", 4, Verdict.FAILED, 60, [*known, *new]))
    assert found.reasons == tuple(map(str, new[:REASONS_MAX]))
    assert found.known == {"'old': b of Fetch, c of Fetch": "so"}


def test_what_was_left_out_is_kept_beside_what_passed() -> None:
    found = row(ApiOutcome("Fetch", 4, Verdict.PASSED, 60, left_out={"no time": 2}))
    assert (found.reasons, found.left_out) == ((), {"no time": 2})


def test_a_line_says_whether_there_is_something_new_and_why_nothing_was_played() -> None:
    known = ApiOutcome("Fetch", 4, Verdict.FAILED, 7, [failure("old", why="so")])
    new = ApiOutcome("Fetch", 5, Verdict.FAILED, 7, [failure("new")])
    out = ApiOutcome("Fetch", 6, Verdict.LEFT_OUT, left_out={"no time": 2})
    more = ApiOutcome("Fetch", 19, Verdict.NO_CASES)
    assert list(lines([known])) == ["Fetch v4: failed, 7 cases, for known reasons only"]
    assert list(lines([known, new, out, more])) == [
        "Fetch v4-5: failed, 14 cases",
        "Fetch v6: left out, 0 cases: no time",
        "Fetch v19: offered, no cases",
    ]
