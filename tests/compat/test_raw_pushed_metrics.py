"""Metrics as bytes: the same that OpenTelemetry's library writes."""

from __future__ import annotations

from kavka.compat_tests.raw import pushed_metrics
from support import pushed

LABELS = {"node.id": "1", "client": "x" * 200}


def test_bytes_are_those_of_opentelemetry() -> None:
    ours = pushed_metrics.gauge("a.rate", 1.5, LABELS), pushed_metrics.counter("a.total", 7)
    theirs = pushed.gauge("a.rate", 1.5, LABELS), pushed.counter("a.total", 7)
    assert pushed_metrics.each(*ours) == pushed.each(*theirs)
    assert pushed_metrics.in_one(*ours) == pushed.in_one(*theirs)
