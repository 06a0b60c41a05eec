"""Where things lie in this repository."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
JAVA = ROOT / "tests" / "java"
CACHE = ROOT / ".cache"
