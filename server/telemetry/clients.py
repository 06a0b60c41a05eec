"""The clients that push metrics: a state machine without I/O.

Each has a client instance id, which may have been assigned here, and a subscription: the union of
all subscriptions that match it. Requests that come too early, or have an outdated subscription id,
are rejected. Rules and names are Apache Kafka 4.3's (`ClientMetricsManager`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from kavka.server.config.subscriptions import ALL_METRICS, MetricsSubscription
from kavka.server.runtime.java_hash import hash_set_order
from kavka.wire.compression import Codec
from kavka.wire.crc import crc32c
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.paths import uuid_text

CLIENTS_MAX: Final = 16_384
"""Clients that are remembered; beyond this the least recently active one is forgotten."""

KEPT_MS_MIN: Final = 60_000
INTERVALS_KEPT: Final = 3
"""A client is forgotten after so many of its intervals without a request, but at least a minute."""

DEFAULT_INTERVAL_MS: Final = 300_000

COMPRESSION_TYPES: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""The compression types that are accepted, the preferred one first."""

_CODECS: Final = frozenset(Codec)
_RETRIED_AFTER: Final = (
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
)
"""After these errors a client gets its subscription again at once, unthrottled."""

ZERO_ID: Final = UUID(int=0)
RESERVED_IDS: Final = (ZERO_ID, UUID(int=1))


@dataclass(slots=True)
class ClientInstance:
    """One client. Times are ms, 0 for never."""

    client_instance_id: UUID
    selectors: Mapping[str, str | None]
    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int
    version: int
    """Version of the subscriptions that it has got."""
    last_get_ms: int = 0
    last_push_ms: int = 0
    terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE
    """The error of its last request."""
    expires_ms: int = 0

    @property
    def kept_ms(self) -> int:
        """How long it is remembered without a request."""
        return max(KEPT_MS_MIN, INTERVALS_KEPT * self.interval_ms)

    def admit_get(self, now_ms: int) -> bool:
        """Whether it may get its subscription now; if so, records the time."""
        if now_ms - max(self.last_get_ms, self.last_push_ms) < self.interval_ms:
            return False
        self.last_get_ms = now_ms
        return True

    def admit_push(self, now_ms: int) -> bool:
        """Whether it may push now; if so, records the time. The first push after a new
        subscription may come early: a client waits for 0.5 to 1.5 intervals."""
        if self.last_get_ms <= self.last_push_ms and now_ms - self.last_push_ms < self.interval_ms:
            return False
        self.last_push_ms = now_ms
        return True


class Clients:
    """All known clients."""

    def __init__(self, new_id: Callable[[], UUID]) -> None:
        self._new_id = new_id
        self._instances: OrderedDict[UUID, ClientInstance] = OrderedDict()
        self._subscriptions: Mapping[str, MetricsSubscription] = {}
        self._version = 0
        self.throttled = 0
        self.unknown_subscriptions = 0

    def __len__(self) -> int:
        return len(self._instances)

    def set_subscriptions(self, subscriptions: Mapping[str, MetricsSubscription]) -> None:
        """Set the subscriptions, by name. Each client gets them with its next request."""
        self._subscriptions = subscriptions
        self._version += 1

    def get_subscription(
        self, client_instance_id: UUID | None, selectors: Mapping[str, str | None], now_ms: int
    ) -> ClientInstance:
        """A client's subscription; assigns an instance id to a new client. ApiError."""
        if client_instance_id is None or client_instance_id == ZERO_ID:
            client_instance_id = self._new_id()
            while client_instance_id in self._instances:
                client_instance_id = self._new_id()
        instance = self._get_or_create(client_instance_id, selectors, now_ms)
        if not instance.admit_get(now_ms) and instance.last_error not in _RETRIED_AFTER:
            self.throttled += 1
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        instance.last_error = ErrorCode.NONE
        return instance

    def push(
        self,
        client_instance_id: UUID | None,
        selectors: Mapping[str, str | None],
        now_ms: int,
        *,
        subscription_id: int,
        terminating: bool,
        codec: int,
        size: int,
        size_max: int,
    ) -> ClientInstance:
        """Check whether a client may push so many bytes. ApiError."""
        if client_instance_id is None or client_instance_id in RESERVED_IDS:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        instance = self._get_or_create(client_instance_id, selectors, now_ms)
        had_ended, instance.terminating = instance.terminating, terminating
        instance.last_error = ErrorCode.NONE
        if had_ended:
            instance.last_error = ErrorCode.INVALID_REQUEST
        elif not instance.admit_push(now_ms) and not terminating:
            self.throttled += 1
            instance.last_error = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        elif subscription_id != instance.subscription_id:
            self.unknown_subscriptions += 1
            instance.last_error = ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        elif codec not in _CODECS:
            instance.last_error = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        elif size > size_max:
            instance.last_error = ErrorCode.TELEMETRY_TOO_LARGE
        if instance.last_error:
            raise ApiError(instance.last_error)
        return instance

    def forget(self, client_instance_id: UUID) -> None:
        """Forget a client whose connection is closed."""
        self._instances.pop(client_instance_id, None)

    def expire(self, now_ms: int) -> None:
        """Forget clients without a recent request."""
        for instance in [
            instance for instance in self._instances.values() if instance.expires_ms <= now_ms
        ]:
            del self._instances[instance.client_instance_id]

    def _get_or_create(
        self, client_instance_id: UUID, selectors: Mapping[str, str | None], now_ms: int
    ) -> ClientInstance:
        """The client; created, or created again if the subscriptions have changed."""
        known = self._instances.get(client_instance_id)
        if known is not None and known.expires_ms <= now_ms:
            known = None
        if known is None or known.version < self._version:
            known = self._new_instance(
                client_instance_id, selectors if known is None else known.selectors
            )
            self._instances[client_instance_id] = known
        self._instances.move_to_end(client_instance_id)
        if len(self._instances) > CLIENTS_MAX:
            self._instances.popitem(last=False)
        known.expires_ms = now_ms + known.kept_ms
        return known

    def _new_instance(
        self, client_instance_id: UUID, selectors: Mapping[str, str | None]
    ) -> ClientInstance:
        selectors = {**selectors, "client_instance_id": uuid_text(client_instance_id)}
        interval_ms = DEFAULT_INTERVAL_MS
        prefixes: dict[str, None] = {}
        for subscription in self._subscriptions.values():
            if subscription.matches(selectors):
                prefixes.update(dict.fromkeys(subscription.metrics))
                interval_ms = min(interval_ms, subscription.interval_ms)
        metrics = (ALL_METRICS,) if ALL_METRICS in prefixes else tuple(hash_set_order(prefixes))
        return ClientInstance(
            client_instance_id,
            selectors,
            subscription_id(metrics, interval_ms, client_instance_id),
            metrics,
            interval_ms,
            self._version,
        )


def subscription_id(metrics: Iterable[str], interval_ms: int, client_instance_id: UUID) -> int:
    """The id of a client's subscription, computed as in Apache Kafka, so that it is the same on all
    brokers."""
    crc = crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode())
    halves = (client_instance_id.int >> 64) ^ client_instance_id.int & (1 << 64) - 1
    mixed = crc ^ (halves >> 32) ^ halves & 0xFFFFFFFF
    return mixed - (1 << 32) if mixed >= 1 << 31 else mixed
