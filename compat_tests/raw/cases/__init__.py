"""The cases, a module an API; each has its table as `CASES`. `sequences` adds some to them."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType

from kavka.compat_tests.raw import sequences
from kavka.compat_tests.raw.case import GROUP_APIS, TRANSACTION_APIS, Cases


@cache
def tables() -> tuple[Cases, ...]:
    """All of them, one for each API, by its key; groups and transactions, which have topics made,
    come last."""
    found: dict[str, Cases] = {}
    for package in (importlib.import_module(__name__), sequences):
        for module in modules(package):
            if isinstance(cases := getattr(module, "CASES", None), Cases):
                found.setdefault(cases.api, Cases(cases.api)).cases += cases.cases
    for merged in found.values():
        names = [case.name for case in merged.cases]
        assert len(set(names)) == len(names), f"{merged.api}: two cases of one name"
    late = [*GROUP_APIS, *TRANSACTION_APIS]
    return tuple(sorted(found.values(), key=lambda cases: (cases.api in late, cases.key)))


def modules(package: ModuleType) -> list[ModuleType]:
    """All modules of a package."""
    names = (module.name for module in pkgutil.iter_modules(package.__path__))
    return [importlib.import_module(f"{package.__name__}.{name}") for name in names]


def table_of(api: str) -> Cases:
    """The cases of one API, by its key or name."""
    found = [cases for cases in tables() if api in (cases.api, str(cases.key))]
    if not found:
        raise SystemExit(f"no such API: {api}")
    return found[0]
