"""Does to a file of settings what the broker's refusal says, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

FILES: Final = Path(__file__).parents[1] / "unit" / "server" / "config" / "data"
"""Apache Kafka's own files, and some as operators have them."""

NAMES: Final = ("stock-3.9", "stock-4.3", "secured-3.9", "secured-4.3")

_DELETE: Final = re.compile(r"\(server\.properties, line (\d+)\): .*\bdelete this line$")
_SET: Final = re.compile(r"; set ([a-z.]+)=(\S+)")
_RANGE: Final = re.compile(r"^([a-z.]+)=\S* .*: the value must be a whole number from (\d+) to")


def read(name: str) -> bytes:
    """The file's content."""
    return (FILES / f"{name}.properties").read_bytes()


def without(content: bytes, beginning: bytes) -> bytes:
    """`content` without the lines that begin so."""
    lines = content.splitlines(keepends=True)
    return b"".join(line for line in lines if not line.startswith(beginning))


def followed(content: bytes, problems: Iterable[str]) -> bytes:
    """`content` after all that `problems` ask for. ValueError for one that says nothing to do."""
    lines = content.decode().splitlines()
    deleted: set[int] = set()
    added: dict[str, str] = {}
    for problem in problems:
        if found := _DELETE.search(problem):
            deleted.add(int(found[1]))
        elif found := _SET.search(problem) or _RANGE.search(problem):
            added[found[1]] = found[2]
        else:
            raise ValueError(f"nothing is said of what to do: {problem}")
    kept = [
        line
        for number, line in enumerate(lines, start=1)
        if number not in deleted and line.partition("=")[0] not in added
    ]
    return "\n".join([*kept, *(f"{key}={value}" for key, value in added.items())]).encode()
