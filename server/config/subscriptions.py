"""Configs of client metrics subscriptions (KIP-714): validation and matching of clients.

Checks and messages are Apache Kafka 4.3's (`ClientMetricsConfigs`). Regular expressions are RE2's,
which match in linear time; features that only Java's have are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from kavka.server.config.other_resource_rows import CLIENT_METRICS
from kavka.server.config.value_types import BadValue, Value
from kavka.wire.errors import ApiError, ErrorCode

INTERVAL_MS_MIN: Final = 100
INTERVAL_MS_MAX: Final = 3_600_000

ALL_METRICS: Final = "*"

SELECTORS: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""The client properties that a subscription can match."""

PROGRAM_BYTES_MAX: Final = 64 * 1024
"""Memory limit of a compiled expression, which also bounds the time of a match."""

PROGRAMS_CACHED_MAX: Final = 500
"""Compiled expressions in the cache."""


class MetricsSubscription(NamedTuple):
    """A parsed subscription. `match` has compiled expressions by selector."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: Mapping[str, Any]

    def matches(self, client: Mapping[str, str | None]) -> bool:
        """Whether a client with these values of `SELECTORS` matches."""
        for selector, expression in self.match.items():
            value = client.get(selector)
            if value is None or not expression.fullmatch(value):
                return False
        return True


def subscription(configs: Mapping[str, str]) -> MetricsSubscription:
    """Parse `configs`. ApiError as `validate_subscription`."""
    values = _values(configs)
    interval_ms, metrics, match = (values[name] for name in ("interval.ms", "metrics", "match"))
    assert isinstance(interval_ms, int) and isinstance(metrics, tuple) and isinstance(match, tuple)
    if not INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval_ms} for interval.ms, interval must be between 100 and "
            "3600000 (1 hour)",
        )
    return MetricsSubscription(metrics, interval_ms, dict(map(_selector, match)))


def validate_subscription(name: str, configs: Mapping[str, str]) -> None:
    """Raises ApiError INVALID_REQUEST or INVALID_CONFIG if a subscription can't have these."""
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    subscription(configs)


def _values(configs: Mapping[str, str]) -> dict[str, Value]:
    for key in configs:
        if key not in CLIENT_METRICS:
            reason = f"Unknown client metrics configuration: {key}"
            raise ApiError(ErrorCode.INVALID_REQUEST, reason)
    try:
        return {
            name: row.parse(configs[name]) if name in configs else row.default
            for name, row in CLIENT_METRICS.items()
        }
    except BadValue as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _selector(text: str) -> tuple[str, Any]:
    """The two sides of `client_id=app.*`, as Java splits it."""
    parts = text.rstrip("=").split("=")
    name, compiled = parts[0].strip(), None
    if len(parts) == 2 and name in SELECTORS:
        compiled = _compiled(parts[1].strip())
    if compiled is None:
        reason = f"Illegal client matching pattern: {text}"
        raise ApiError(ErrorCode.INVALID_CONFIG, reason)
    return name, compiled


@lru_cache(maxsize=PROGRAMS_CACHED_MAX)
def _compiled(expression: str) -> Any | None:
    """None for an invalid expression."""
    import re2  # lazy import: most brokers have no subscription

    options = re2.Options()
    options.log_errors = False
    options.max_mem = PROGRAM_BYTES_MAX
    try:
        return re2.compile(expression, options)
    except re2.error:
        return None
