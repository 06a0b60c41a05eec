"""The schemas of requests and responses, and the versions of each API.

Values are plain: {field name: value}, with structs as such values again.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any, TypeAlias

from kavka.compat_tests.raw.codec import stock_codec
from kavka.wire import apis
from kavka.wire.api import Api

Values: TypeAlias = Mapping[str, Any]

OF_CLUSTERS = frozenset(
    {
        "allocate_producer_ids",
        "alter_partition",
        "controlled_shutdown",
        "leader_and_isr",
        "stop_replica",
        "update_metadata",
    }
)
"""Modules of APIs that a standalone broker does not serve."""


@cache
def api_modules() -> dict[str, ModuleType]:
    """The modules of `kavka.wire.apis` by name."""
    return {
        found.name: importlib.import_module(f"{apis.__name__}.{found.name}")
        for found in pkgutil.iter_modules(apis.__path__)
    }


def served_apis() -> list[Api]:
    """The APIs of a standalone broker."""
    return [module.API for name, module in api_modules().items() if name not in OF_CLUSTERS]


def schema(name: str) -> Any:
    """The library's description of a message."""
    return stock_codec.message_class(name)._struct


def as_namespace(struct: Any, found: Values) -> SimpleNamespace:
    """An object with all the schema's attributes, for the library's writer."""
    return SimpleNamespace(
        **{field.name: convert(field, found, as_namespace) for field in struct._fields}
    )


def convert(field: Any, found: Values, made: Any) -> Any:
    """The value of one field, with structs as `made` makes them."""
    if field.name not in found:
        return field.default
    value = found[field.name]
    inner = field.array_of if field.is_struct_array() else field
    if value is None or not getattr(inner, "_fields", None):
        return value
    return [made(inner, item) for item in value] if isinstance(value, list) else made(inner, value)
