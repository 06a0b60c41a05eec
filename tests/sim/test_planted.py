"""The simulation's own test: it finds every planted bug."""

from __future__ import annotations

import pytest

from sim import page
from sim.cluster_planted import CLUSTER_BUGS
from sim.planted import BUGS, Bug, caught_by


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug) -> None:
    found = caught_by(bug)
    assert found is not None, f"not within {bug.seeds_max} seeds"


@pytest.mark.parametrize("bug", CLUSTER_BUGS, ids=lambda bug: bug.name)
def test_a_bug_planted_into_a_cluster_is_found(bug: Bug) -> None:
    found = caught_by(bug, cluster=True)
    assert found is not None, f"not within {bug.seeds_max} seeds"


def test_the_page_names_all_bugs() -> None:
    assert page.PAGE.read_text() == page.page(), "run: make pages"
