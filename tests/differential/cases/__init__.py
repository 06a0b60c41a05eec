"""The cases, a module an API; each has its table as `CASES`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from differential.case import Cases
from support import messages


@cache
def tables() -> tuple[Cases, ...]:
    """All of them, by API key."""
    found = [table(module.name) for module in pkgutil.iter_modules(__path__)]
    return tuple(sorted(found, key=lambda cases: cases.key))


def table(module: str) -> Cases:
    """The cases of one API, by its module's name."""
    cases: Cases = importlib.import_module(f"{__name__}.{module}").CASES
    return cases


def table_of(api: str) -> Cases:
    """The cases of one API, by its key or name."""
    modules = messages.api_modules().items()
    found = [name for name, one in modules if api in (str(one.API.key), one.API.name)]
    if not found:
        raise SystemExit(f"no such API: {api}")
    return table(found[0])
