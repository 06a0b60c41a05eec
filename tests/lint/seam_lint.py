"""Finds code that reaches for time, tasks, threads, sockets, files or chance by itself.

Such code cannot be simulated and can be tested only with luck, so all of it comes through the
seams (`kavka.seams`, `kavka.log.fs`). Names are followed through a module's own imports; what
hides behind `getattr` or a variable is not seen. The modules that are the seams, and start-up,
which joins them to the machine, are exempt by `lint.bans.EXEMPTIONS` and nowhere else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lint.bans import (
    BANNED_LOOP_METHODS,
    BANNED_METHODS,
    CHANCE,
    EXEMPTIONS,
    INSTEAD,
    ORDER,
    has_allowed_parts,
    rule_of,
)
from lint.findings import ROOT, Finding, python_files, relative

CHANCE_WITHOUT_SEED: Final = frozenset({"random.Random", "kavka.seams.Random"})

ORDER_KEEPERS: Final = frozenset(
    {"dict.fromkeys", "enumerate", "filter", "iter", "list", "map", "next", "tuple", "zip"}
)
"""Calls whose result shows the order of what they are given."""

ORDER_FORGETTERS: Final = frozenset(
    {"all", "any", "frozenset", "len", "max", "min", "set", "sorted", "sum"}
)
"""Calls to which it makes no difference: a generator inside them may run over a set."""


def _dotted(node: ast.expr) -> str | None:
    """`a.b.c` as text; None when it does not begin with a plain name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    parts.append(node.id)
    return ".".join(reversed(parts))


def _is_set(node: ast.expr) -> bool:
    """Whether an expression is a set for all to see: a literal, a call, or one combined."""
    if isinstance(node, ast.BinOp):
        combines = isinstance(node.op, ast.BitOr | ast.BitAnd | ast.BitXor | ast.Sub)
        return combines and (_is_set(node.left) or _is_set(node.right))
    if isinstance(node, ast.Call):
        return _dotted(node.func) in {"set", "frozenset"}
    return isinstance(node, ast.Set | ast.SetComp)


def _is_called_loop(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name.strip("_").endswith("loop")


class _Visitor(ast.NodeVisitor):
    """Walks one module; `found` grows in the order of the source."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.found: list[Finding] = []
        self._imported: dict[str, str] = {}
        """What an imported name stands for: `dt` -> `datetime.datetime`."""
        self._any_order: list[ast.expr] = []
        """Generators whose order their caller does not care for."""

    def _add(self, node: ast.stmt | ast.expr, rule: str, problem: str) -> None:
        self.found.append(Finding(self.path, node.lineno, rule, f"{problem}: {INSTEAD[rule]}"))

    def _full_name(self, node: ast.expr) -> str | None:
        """The full name behind an expression that begins with an imported name."""
        first, dot, rest = (_dotted(node) or "").partition(".")
        return self._imported[first] + dot + rest if first in self._imported else None

    def _import(self, node: ast.stmt, full: str, *, name: str, stands_for: str) -> None:
        rule = rule_of(full)
        if rule is not None and not has_allowed_parts(full):
            self._add(node, rule, full)  # said here, so not again at each use
        else:
            self._imported[name] = stands_for

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.asname is not None:
                self._import(node, alias.name, name=alias.asname, stands_for=alias.name)
            else:  # `import a.b` makes the name `a`
                top = alias.name.partition(".")[0]
                self._import(node, alias.name, name=top, stands_for=top)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            self._import(node, full, name=alias.asname or alias.name, stands_for=full)

    def visit_Name(self, node: ast.Name) -> None:
        full = self._full_name(node) or node.id
        rule = rule_of(full) if node.id in self._imported or full == "open" else None
        if rule is not None and not has_allowed_parts(full):
            self._add(node, rule, full)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        full = self._full_name(node)
        rule = None if full is None else rule_of(full)
        shown = full or f".{node.attr}"
        if rule is None:
            rule = BANNED_METHODS.get(node.attr)
        if rule is None and _is_called_loop(node.value):
            rule = BANNED_LOOP_METHODS.get(node.attr)
        if rule is not None:
            self._add(node, rule, shown)
        if full is None:  # else it is a chain of names, and judged as a whole
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        full = self._full_name(node.func)
        if full in CHANCE_WITHOUT_SEED and not node.args and not node.keywords:
            self._add(node, CHANCE, f"{full}() without a seed")
        called = _dotted(node.func)
        if called in ORDER_FORGETTERS:
            self._any_order += node.args
        elif called in ORDER_KEEPERS or getattr(node.func, "attr", None) == "join":
            for argument in node.args:
                self._check_order(argument)
        self.generic_visit(node)

    def _check_order(self, node: ast.expr) -> None:
        if _is_set(node):
            self._add(node, ORDER, "iteration over a set")

    def visit_For(self, node: ast.For) -> None:
        self._check_order(node.iter)
        self.generic_visit(node)

    def visit_Starred(self, node: ast.Starred) -> None:
        self._check_order(node.value)
        self.generic_visit(node)

    def _visit_ordered(self, node: ast.ListComp | ast.GeneratorExp | ast.DictComp) -> None:
        if node not in self._any_order:
            for generator in node.generators:
                self._check_order(generator.iter)
        self.generic_visit(node)

    visit_ListComp = _visit_ordered
    visit_GeneratorExp = _visit_ordered
    visit_DictComp = _visit_ordered


def check_source(path: str, source: str) -> list[Finding]:
    """What `source` does that it may not, regardless of what `EXEMPTIONS` say of its `path`."""
    visitor = _Visitor(path)
    visitor.visit(ast.parse(source, path))
    return visitor.found


def checked_tops() -> list[Path]:
    """`src/kavka` and the packages it links to, but for programs of their own: tools, pipelines and
    the compatibility suite."""
    package = ROOT / "src" / "kavka"
    links = sorted(link for link in package.iterdir() if link.is_symlink())
    apart = {"tools", "spark_it", "compat_tests"}
    return [package, *(link.resolve() for link in links if link.name not in apart)]


def findings() -> Iterator[Finding]:
    """All of the repository's, and exemptions that nothing needs any more."""
    exempt = {(row.path, rule) for row in EXEMPTIONS for rule in row.rules}
    unused = dict.fromkeys(sorted(exempt))
    for top in checked_tops():
        for path in python_files(top):
            for finding in check_source(relative(path), path.read_text("utf-8")):
                unused.pop((finding.path, finding.rule), None)
                if (finding.path, finding.rule) not in exempt:
                    yield finding
    for path_of_row, rule in unused:
        yield Finding(path_of_row, 1, rule, "needs its row in EXEMPTIONS no more: remove it")
