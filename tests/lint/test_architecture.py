"""The functions and files that `docs/architecture.md` names are there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lint.findings import ROOT

PAGE = ROOT / "docs" / "architecture.md"
PACKAGES = (
    "server",
    "client",
    "log",
    "groupcoord",
    "txncoord",
    "wire",
    "zktree",
    "tools",
    "spark_it",
    "compat_tests",
)
MODULES = {
    path.relative_to(ROOT).with_suffix("").as_posix(): path
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
} | {
    path.relative_to(ROOT).with_suffix("").as_posix(): path
    for path in (ROOT / "src/kavka/seams.py", *(ROOT / "src/kavka/testing").glob("*.py"))
}


def named() -> list[str]:
    """What stands in code font and looks like a path, or a method of a class."""
    spans = re.findall(r"`(\w+(?:[./]\w+)+)`", PAGE.read_text())
    return sorted({span for span in spans if "/" in span or span[0].isupper()})


def definitions(path: Path) -> Iterator[str]:
    """`name`, `Class` and `Class.method` for all that a module defines."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield node.name
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{node.name}.{inner.name}"
                elif isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
                    yield f"{node.name}.{inner.target.id}"


DEFINED = {module: set(definitions(path)) for module, path in MODULES.items()}


def exists(name: str) -> bool:
    """A path from the root; a module and what it defines; a class's method."""
    if (ROOT / name).exists():
        return True
    module, _, rest = name.partition(".")
    if module in MODULES:
        return not rest or rest in DEFINED[module]
    return any(name in names for names in DEFINED.values())


def named_with_file() -> list[tuple[str, str]]:
    """(module, name) of each name in the table that follows a file: `a/b.py`: `C.d`, `e`."""
    found = re.findall(r"`([\w/]+)\.py`: (`[\w.]+`(?:, `[\w.]+`)*)", PAGE.read_text())
    return [(module, name) for module, names in found for name in re.findall(r"[\w.]+", names)]


@pytest.mark.parametrize(("module", "name"), named_with_file())
def test_a_name_after_a_file_is_defined_in_it(module: str, name: str) -> None:
    assert name in DEFINED[module], f"docs/architecture.md names `{name}` in {module}.py"


def test_the_table_has_names_after_files() -> None:
    assert named_with_file()


@pytest.mark.parametrize("name", named())
def test_what_is_named_exists(name: str) -> None:
    assert exists(name), f"docs/architecture.md names `{name}`, which is not there"
