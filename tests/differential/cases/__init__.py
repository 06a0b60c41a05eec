"""The cases, a module an API; each has its table as `CASES`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from differential.case import Cases


@cache
def tables() -> tuple[Cases, ...]:
    """All of them, by API key."""
    names = [found.name for found in pkgutil.iter_modules(__path__)]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return tuple(sorted((module.CASES for module in modules), key=lambda cases: cases.key))
