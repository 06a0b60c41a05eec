"""The example in the README does what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from support.paths import ROOT
from support.process import BrokerProcess

TIMEOUT_S = 60
FENCED = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"(\d) (\d+) key (\d) hello")


def test_the_example_writes_and_reads(broker: BrokerProcess) -> None:
    (example,) = FENCED.findall((ROOT / "README.md").read_text())
    done = subprocess.run(
        [sys.executable, "-c", example],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, "KAVKA_BOOTSTRAP": broker.bootstrap},
    )
    assert done.returncode == 0, done.stderr
    lines = [PRINTED.fullmatch(line) for line in done.stdout.splitlines()]
    assert all(lines), done.stdout
    assert sorted(line[3] for line in lines if line) == [str(number) for number in range(10)]
