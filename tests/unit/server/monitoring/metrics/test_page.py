"""`docs/metrics.md` is what the table gives."""

from __future__ import annotations

import re

import pytest

from kavka.server.monitoring.metrics.page import page
from kavka.server.monitoring.metrics.table import TABLE
from kavka.server.telemetry.series import PREFIX
from support.paths import ROOT

PAGE = ROOT / "docs" / "metrics.md"


def test_the_page_is_current() -> None:
    shown = PAGE.read_text("utf-8")
    assert shown == page(), "run: make pages"


def test_it_has_a_line_for_each_metric() -> None:
    lines = page().splitlines()
    for row in TABLE:
        assert sum(f"| `{row.prometheus}` | {row.kind.value} |" in line for line in lines) == 1


@pytest.mark.parametrize("name", ["operations.md", "monitoring.md", "groups.md", "transactions.md"])
def test_the_metrics_on_other_pages_are_there(name: str) -> None:
    text = PAGE.with_name(name).read_text("utf-8")
    named = set(re.findall(r"\b(?:kafka|kavka|process)_[a-z0-9_]+\b", text))
    known = set(re.findall(r"`((?:kafka|kavka|process)_[a-z0-9_]+)`", page()))
    own = {"kavka_broker", "kavka_topic"}  # fixtures
    pushed = {metric for metric in named if metric.startswith(PREFIX)}  # clients name these
    assert named - known - own - pushed == set()
    assert named or name == "groups.md"
