"""Keeps files and functions short enough to be read at a sitting."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from lint.findings import ROOT, Finding, python_files, relative

FILE_LINES_MAX: Final = 600
FUNCTION_LINES_MAX: Final = 70
"""From `def` to the last line; tests may tell a longer story in one function."""


def check_source(path: str, source: str) -> Iterator[Finding]:
    """Findings for one file, whose `path` (relative to the root) tells tests from code."""
    lines = len(source.splitlines())
    if lines > FILE_LINES_MAX:
        yield Finding(path, 1, "size", f"{lines} lines, {FILE_LINES_MAX} are allowed: split it")
    if path.startswith("tests/"):
        return
    for node in ast.walk(ast.parse(source, path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                limit = f"{FUNCTION_LINES_MAX} are allowed"
                yield Finding(path, node.lineno, "size", f"{node.name}: {lines} lines, {limit}")


def findings() -> Iterator[Finding]:
    """All of the repository's."""
    for path in python_files(ROOT):
        yield from check_source(relative(path), path.read_text("utf-8"))
