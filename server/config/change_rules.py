"""Validation of dynamic config changes that involves more than one value.

Messages are Apache Kafka's, which come either from a requirement of its configuration or from the
component that would have to apply the change (its `Reconfigurable`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from kavka.server.config.address_limits import OF_LISTENERS
from kavka.server.config.cleaner_rows import CLEANER_THREAD_BYTES_MIN
from kavka.server.config.table import base_name
from kavka.server.config.value_types import BadValue, Value

ValueOf: TypeAlias = Callable[[str], Value]
"""Returns the value of a broker setting by key."""

_THREADS: Final = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)
_CLEANER_THREADS: Final = "log.cleaner.threads"
_CLEANER_BUFFER: Final = "log.cleaner.dedupe.buffer.size"
_PER_IP: Final = "max.connections.per.ip"


def check_change(keys: Iterable[str], old: ValueOf, new: ValueOf) -> None:
    """Raises BadValue if the settings can't change from `old` to `new`; `keys` are the changed
    ones."""
    _check_required(new)
    for key in keys:
        if base_name(key) in OF_LISTENERS and new(key) == 0:
            raise _rejected(f"Invalid {base_name(key)} 0")
    for key in _THREADS:
        _check_threads(key, _number(old(key)), _number(new(key)))
    _check_cleaners(_number(old(_CLEANER_THREADS)), _number(new(_CLEANER_THREADS)))


def _check_required(new: ValueOf) -> None:
    if new(_PER_IP) == 0 and not new(f"{_PER_IP}.overrides"):
        raise BadValue(
            f"requirement failed: {_PER_IP} can be set to zero only if {_PER_IP}.overrides "
            "property is set."
        )
    threads = max(1, _number(new(_CLEANER_THREADS)))
    if _number(new(_CLEANER_BUFFER)) // threads <= CLEANER_THREAD_BYTES_MIN:
        raise BadValue(
            f"requirement failed: {_CLEANER_BUFFER} must be at least 1MB per cleaner thread."
        )


def _check_threads(key: str, old: int, new: int) -> None:
    if old // 2 <= new <= old * 2:
        return
    if new > old:
        reason = f"value should not be greater than double the current value {old}"
    else:
        reason = f"value should be at least half the current value {old}"
    raise _rejected(f"Dynamic thread count update validation failed for {key}={new}, {reason}")


def _check_cleaners(old: int, new: int) -> None:
    if new == old:
        return
    if new < 1:
        raise _rejected("Log cleaner threads should be at least 1")
    if new < old // 2:
        reason = f"cannot be reduced to less than half the current value {old}"
    elif new > old * 2:
        reason = f"cannot be increased to more than double the current value {old}"
    else:
        return
    raise _rejected(f"Log cleaner threads {reason}")


def _rejected(reason: str) -> BadValue:
    """Kafka's message when a component of the broker rejects a change."""
    cause = f"org.apache.kafka.common.config.ConfigException: {reason}"
    return BadValue(f"Invalid value {cause} for configuration Invalid dynamic configuration")


def _number(value: Value) -> int:
    assert isinstance(value, int)
    return value
