"""The requested config changes of one resource, and their application to its configs. Pure.

Both AlterConfigs, which replaces all configs, and IncrementalAlterConfigs (KIP-339), which changes
single ones, become an `Alteration`. Errors and their order are Apache Kafka 4.3's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from kavka.server.config.dynamic_rules import check_values
from kavka.server.config.rows import Config
from kavka.server.config.value_types import BadValue, Type, to_text
from kavka.wire.errors import ApiError, ErrorCode


class AlterOp(IntEnum):
    """The operation on one config, numbered as on the wire."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


OPS: Final = frozenset(AlterOp)


class ConfigResourceType(IntEnum):
    """The types of resources that have configs, numbered as on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigChange(NamedTuple):
    """The change of one config. `op` may be an unknown number, which is rejected later."""

    name: str
    op: int
    value: str | None


class Alteration(NamedTuple):
    """The changes of one resource. `kind` may be a number that is no `ConfigResourceType`."""

    kind: int
    name: str
    changes: Sequence[ConfigChange]
    replaces: bool = False
    """Whether configs that are not named go back to their defaults (AlterConfigs)."""

    def check_form(self) -> None:
        """ApiError INVALID_REQUEST for a duplicate config, or one without a value."""
        names = [change.name for change in self.changes]
        if len(set(names)) < len(names):
            raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        without = [
            change.name
            for change in self.changes
            if change.value is None and change.op != AlterOp.DELETE
        ]
        if without:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(without)}"
            )

    @property
    def has_unknown_op(self) -> bool:
        """Whether some operation is unknown."""
        return any(change.op not in OPS for change in self.changes)

    def applied(self, current: Mapping[str, str], rows: Mapping[str, Config]) -> dict[str, str]:
        """The configs after the changes. `rows` has the config table's rows, by name.

        Raises ApiError INVALID_CONFIG for an APPEND or SUBTRACT on a config that is not a list,
        and for values that are too long.
        """
        configs = {} if self.replaces else dict(current)
        for name, op, value in self.changes:
            if op == AlterOp.DELETE:
                configs.pop(name, None)
                continue
            assert value is not None, "checked by check_form"
            if op in (AlterOp.APPEND, AlterOp.SUBTRACT):
                value = _with_items(name, AlterOp(op), value, current.get(name), rows.get(name))
            configs[name] = value
        try:
            check_values(text for name, text in configs.items() if current.get(name) != text)
        except BadValue as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
        return configs


def _with_items(name: str, op: AlterOp, value: str, old: str | None, row: Config | None) -> str:
    if row is None or row.type is not Type.LIST:
        reason = f"Can't {op.name} to key {name} because its type is not LIST."
        raise ApiError(ErrorCode.INVALID_CONFIG, reason)
    text = to_text(row.default) if old is None else old
    items = list(filter(None, (text or "").split(",")))
    named = _split(value)
    if op is AlterOp.APPEND:
        known = frozenset(items)
        items += [item for item in dict.fromkeys(named) if item not in known]
        return ",".join(items)
    left = Counter(named)
    kept: list[str] = []
    for item in items:
        if left[item]:
            left[item] -= 1
        else:
            kept.append(item)
    return ",".join(kept)


def _split(value: str) -> list[str]:
    """As Java's `split`: drops empty items at the end, except for an empty string."""
    items = value.split(",")
    while value and items and not items[-1]:
        items.pop()
    return items
