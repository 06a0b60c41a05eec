"""The page's table of what the doctor finds in a cluster has all that is found."""

from __future__ import annotations

import re
from pathlib import Path

from commands.doctor_problems import problems

HERE = Path(__file__).parent


def test_what_other_tests_find_is_in_the_table() -> None:
    known = {(problem.step, problem.name) for problem in problems()}
    found = {
        (step, name)
        for file in ("test_doctor_cluster.py", "test_doctor_arrival.py")
        for step, name in re.findall(r'"([a-z-]+)/([a-z-]+)"', (HERE / file).read_text())
    }
    assert len(found) >= 20
    assert found <= known
