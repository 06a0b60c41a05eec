"""Measures Kavka beside Apache Kafka: the same stages, the same clients, one table.

Run it from the root of the repository: `PYTHONPATH=src python -m bench` (or `make bench`).
`docs/benchmarks.md` says what each row means.
"""

import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]

# Apache Kafka's jars, and how to run them, are shared with the tests.
sys.path.append(str(ROOT / "tests"))
