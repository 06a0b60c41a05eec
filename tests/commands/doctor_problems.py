"""The problems that `kavka doctor` finds in a cluster, read from its code: a table of
`docs/tools.md`."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from support.paths import ROOT

DOCTOR: Final = ROOT / "tools" / "doctor"
LEVELS: Final = ("error", "warning", "note")
STEPS: Final = (
    *("name", "tcp", "protocol", "tls", "sasl", "versions", "advertised", "client-config"),
    *("partitions", "leaders", "log-dirs", "coordinators", "clock", "groups", "transactions"),
    *("retention", "write"),
)
"""In the order in which they are taken."""

ANY_STEP: Final = "any step"
HEAD: Final = "| step | problems |\n|---|---|\n"


class Problem(NamedTuple):
    """One that a piece of the code names."""

    step: str
    level: str
    name: str


def problems() -> set[Problem]:
    """All of them; those of log directories at rest are not among them."""
    paths = [path for path in sorted(DOCTOR.glob("*.py")) if path.name != "findings.py"]
    return {problem for path in paths for problem in _of_module(path)}


def table() -> str:
    """A line for each step."""
    found: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for problem in sorted(problems()):
        found[problem.step][problem.level].append(problem.name)
    assert found.keys() <= {*STEPS, ANY_STEP}, found.keys()
    rows = [(step, found[step]) for step in (*STEPS, ANY_STEP) if step in found]
    return HEAD + "".join(f"| {step} | {_cell(levels)} |\n" for step, levels in rows)


def _cell(levels: defaultdict[str, list[str]]) -> str:
    parts = []
    for level in LEVELS:
        if names := levels.get(level):
            plural = "s" if len(names) > 1 else ""
            parts.append(f"{level}{plural}: {', '.join(f'`{name}`' for name in names)}")
    return "; ".join(parts)


def _of_module(path: Path) -> Iterator[Problem]:
    tree = ast.parse(path.read_text())
    texts = _texts(tree)
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        level = call.func.id.removeprefix("_")
        if level not in LEVELS:
            continue
        arguments = call.args
        if call.func.id != level:  # one for the module's own step
            arguments = [ast.Name("STEP"), *arguments]
        elif isinstance(arguments[1], ast.Name) and any(
            isinstance(function, ast.FunctionDef)
            and function.name == f"_{level}"
            and call in ast.walk(function)
            for function in tree.body
        ):
            continue  # what that one does
        step = arguments[0]
        names = _values(arguments[1], tree)
        assert names, f"{path.name}:{call.lineno}: no problem is named"
        for name in names:
            yield Problem(_step(step, texts), level, name)


def _step(node: ast.expr, texts: dict[str, str]) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    assert isinstance(node, ast.Name)
    return texts.get(node.id, ANY_STEP)


def _texts(tree: ast.Module) -> dict[str, str]:
    """The module's constants that are texts, those of other modules of the doctor included."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            "kavka.tools.doctor."
        ):
            other = DOCTOR / f"{(node.module or '').rpartition('.')[2]}.py"
            theirs = _texts(ast.parse(other.read_text()))
            found.update(
                {
                    imported.name: theirs[imported.name]
                    for imported in node.names
                    if imported.name in theirs
                }
            )
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                found[node.target.id] = node.value.value
    return found


def _values(node: ast.expr, tree: ast.Module) -> set[str]:
    """The texts that an expression may be: a constant, or a name that is given one, or the first of
    what a function returns or a table has."""
    match node:
        case ast.Constant(value=str(text)):
            return {text} if text else set()
        case ast.IfExp():
            return _values(node.body, tree) | _values(node.orelse, tree)
        case ast.Tuple():
            return _values(node.elts[0], tree)
        case ast.Name():
            return set().union(*(_values(assigned, tree) for assigned in _assigned(node.id, tree)))
        case ast.Call(func=ast.Name(id=name)):
            returned = [
                statement.value
                for function in tree.body
                if isinstance(function, ast.FunctionDef) and function.name == name
                for statement in ast.walk(function)
                if isinstance(statement, ast.Return) and statement.value is not None
            ]
            return set().union(*(_values(value, tree) for value in returned))
        case ast.Subscript():
            return _values(node.value, tree)
        case ast.Dict():
            return set().union(*(_values(value, tree) for value in node.values))
        case _:
            return set()


def _assigned(name: str, tree: ast.Module) -> Iterator[ast.expr]:
    """What is assigned to a name anywhere in a module, alone or as the first of several."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            if isinstance(node.target, ast.Name) and node.target.id == name:
                yield node.value
        elif isinstance(node, ast.Assign):
            (target,) = node.targets
            first = target.elts[0] if isinstance(target, ast.Tuple) else target
            if isinstance(first, ast.Name) and first.id == name:
                yield node.value
