"""The example in the README: events, a windowed aggregate, a topic, Parquet, a table printed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from support.broker import Kavka, kavka_environment
from support.paths import CACHE, ROOT

WITHIN_S = 240.0
WINDOW_S = 300


def example() -> str:
    """The README's program that uses Spark."""
    programs = (ROOT / "README.md").read_text().split("```python\n")[1:]
    (found,) = (text.partition("```")[0] for text in programs if "spark_it" in text)
    return found


@pytest.mark.timeout(300)
def test_the_example_prints_the_totals(tmp_path: Path) -> None:
    broker = Kavka(tmp_path / "broker").start()
    try:
        environment = {
            **kavka_environment(),
            "BOOTSTRAP_SERVERS": broker.bootstrap,
            "KAVKA_SPARK_JARS": str(CACHE / "spark"),
            "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # a short run
        }
        done = subprocess.run(
            [sys.executable, "-c", example()],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
        )
    finally:
        broker.close()
    assert done.returncode == 0, done.stderr
    totals: Counter[tuple[int, str]] = Counter()
    for second in range(1000):
        totals[second // WINDOW_S, f"shop {second % 3}"] += second % 7
    shown = [line.strip("|").strip() for line in done.stdout.splitlines() if "{" in line]
    found = [json.loads(line) for line in shown]
    assert len(found) == len(totals) == 12
    assert {row["shop"]: row["total"] for row in found[:3]} == {
        shop: total for (window, shop), total in totals.items() if window == 0
    }
    assert sorted(row["total"] for row in found) == sorted(totals.values())
