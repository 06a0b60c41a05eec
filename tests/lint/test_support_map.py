"""`tests/support/README.md` names every module, so that none is made twice."""

from __future__ import annotations

import re

from lint.findings import ROOT

SUPPORT = ROOT / "tests" / "support"


def test_every_module_is_on_the_map_once() -> None:
    rows = [
        line
        for line in (SUPPORT / "README.md").read_text().splitlines()
        if line.startswith("| ") and not line.startswith("| for ")
    ]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row.rsplit("|", 2)[1])]
    modules = {path.stem for path in SUPPORT.glob("*.py")} - {"__init__"}
    modules = {name for name in modules if not name.startswith("test_")}
    packages = {path.parent.name for path in SUPPORT.glob("*/__init__.py")}
    assert sorted(named) == sorted(modules | packages)
