"""Receives the metrics that clients push, and exports them on `/metrics` (KIP-714).

Apache Kafka lets clients push if a metrics reporter for them is configured; Kavka does if it serves
`/metrics`. Owns the timer that expires clients and their series.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from kavka.seams import Clock, Jobs, Pool, Random, Tasks, Timer
from kavka.server.cluster.entity_configs import EntityConfigs
from kavka.server.config.subscriptions import MetricsSubscription, subscription
from kavka.server.config.value_types import one_line
from kavka.server.runtime import cooperative
from kavka.server.runtime.lazy_imports import import_one_by_one
from kavka.server.telemetry.clients import ClientInstance, Clients
from kavka.server.telemetry.series import Series
from kavka.wire.compression import Bytes, Codec, decompress
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree import paths
from kavka.zktree.paths import random_uuid

if TYPE_CHECKING:
    import asyncio
    from uuid import UUID

    from kavka.server.request.context import RequestContext
    from kavka.server.telemetry.payload import Point

logger = logging.getLogger(__name__)

INFLATED_BYTES_MAX: Final = 4 * 1024 * 1024
"""The decompressed size of one push."""

WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
"""Pushes that wait to be parsed, one after the other; further ones are throttled."""

POINTS_PER_STEP: Final = 250
"""Data points stored between two yields to the event loop, at some 5 us each."""

EXPIRES_EVERY_S: Final = 10.0

LIBRARY: Final = (
    "google.protobuf.descriptor",
    "google.protobuf.internal.containers",
    "google.protobuf.internal.decoder",
    "google.protobuf.text_format",
    "google.protobuf.internal.python_message",
    "google.protobuf.descriptor_pool",
    "google.protobuf.symbol_database",
    "google.protobuf.internal.builder",
    "opentelemetry.proto.common.v1.common_pb2",
    "opentelemetry.proto.resource.v1.resource_pb2",
    "opentelemetry.proto.metrics.v1.metrics_pb2",
    "kavka.server.telemetry.payload",
)
"""The modules that parse a push, each after those that it imports: 30 ms in one go."""


class Telemetry:
    """The receiver of one broker."""

    def __init__(
        self, configs: EntityConfigs, *, clock: Clock, tasks: Tasks, jobs: Jobs, random: Random
    ) -> None:
        self._configs = configs
        self._clock = clock
        self._tasks = tasks
        self._jobs = jobs
        self.clients = Clients(lambda: random_uuid(random))
        self.series = Series()
        self.pushes = 0
        """Pushes that were parsed."""
        self.bad_pushes = 0
        self._timer: Timer | None = None
        self._last: asyncio.Future[None] | None = None
        """Done when the last queued push is parsed."""
        self._waiting_bytes = 0
        self._stale = True
        self._is_loaded = False
        configs.on_change(self._changed)

    def get_subscription(
        self, context: RequestContext, client_instance_id: UUID | None
    ) -> ClientInstance:
        """A client's subscription. ApiError."""
        self._refresh_subscriptions()
        instance = self.clients.get_subscription(
            client_instance_id, _selectors(context), self._clock.now_ms()
        )
        self._tie_to_connection(context, instance)
        return instance

    def push(self, context: RequestContext, request: Any, size_max: int) -> ClientInstance:
        """Check a push, and return its client. ApiError."""
        self._refresh_subscriptions()
        instance = self.clients.push(
            request.client_instance_id,
            _selectors(context),
            self._clock.now_ms(),
            subscription_id=request.subscription_id,
            terminating=request.terminating,
            codec=request.compression_type,
            size=len(request.metrics),
            size_max=size_max,
        )
        self._tie_to_connection(context, instance)
        return instance

    async def ingest(
        self, instance: ClientInstance, client_id: str | None, codec: int, data: bytes
    ) -> None:
        """Parse and store a push. ApiError INVALID_RECORD or THROTTLING_QUOTA_EXCEEDED."""
        if self._waiting_bytes > WAITING_BYTES_MAX:
            self.clients.throttled += 1
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        before, done = self._last, self._tasks.future()
        self._last = done
        self._waiting_bytes += len(data)
        try:
            if before is not None:
                await before
            found = await self._read(codec, data)
            await self._store(instance, client_id, found)
        except (ValueError, ApiError) as failure:
            self.bad_pushes += 1
            reason = failure.message if isinstance(failure, ApiError) else failure
            client = instance.client_instance_id
            logger.warning("client %s pushed metrics that can't be parsed: %s", client, reason)
            raise ApiError(ErrorCode.INVALID_RECORD) from failure
        finally:
            self._waiting_bytes -= len(data)
            if self._last is done:
                self._last = None
            if not done.done():
                done.set_result(None)

    async def _read(self, codec: int, data: bytes) -> Sequence[Point]:
        """The data points of a push. ApiError or ValueError for an invalid or too big one."""
        if not self._is_loaded:
            await import_one_by_one(self._tasks, LIBRARY)
            self._is_loaded = True
        from kavka.server.telemetry.payload import points

        inflated: Bytes = data
        if codec != Codec.NONE:
            inflated = await self._jobs.run(
                Pool.COMPUTE, decompress, codec, data, INFLATED_BYTES_MAX
            )
        return await cooperative.run_rest(self._tasks, points(memoryview(inflated)))

    async def _store(
        self, instance: ClientInstance, client_id: str | None, found: Sequence[Point]
    ) -> None:
        self.pushes += 1
        until_ms = self._clock.now_ms() + instance.kept_ms
        for start in range(0, max(1, len(found)), POINTS_PER_STEP):
            if start:
                await self._tasks.sleep(0)
            part = found[start : start + POINTS_PER_STEP]
            self.series.add(instance.client_instance_id, client_id, part, until_ms)

    def close(self) -> None:
        """Stop the expiry timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tie_to_connection(self, context: RequestContext, instance: ClientInstance) -> None:
        """Forget the client when its connection closes, or when it expires."""
        context.peer.on_lost = partial(self.clients.forget, instance.client_instance_id)
        if self._timer is None:
            self._timer = self._tasks.call_later(EXPIRES_EVERY_S, self._expire)

    def _expire(self) -> None:
        now_ms = self._clock.now_ms()
        self.clients.expire(now_ms)
        self.series.expire(now_ms)
        self._timer = None
        if len(self.clients) or self.series.count:
            self._timer = self._tasks.call_later(EXPIRES_EVERY_S, self._expire)

    def _changed(self, kind: str, name: str) -> None:
        self._stale = self._stale or kind == paths.SUBSCRIPTION_CONFIGS

    def _refresh_subscriptions(self) -> None:
        """Use the current subscriptions, if they have changed."""
        if self._stale:
            self._stale = False
            self.clients.set_subscriptions(_usable(self._configs.subscriptions()))


def is_installed() -> bool:
    """Whether the OpenTelemetry library is installed: the extra `telemetry`."""
    try:
        return find_spec("opentelemetry.proto.metrics") is not None
    except ModuleNotFoundError:
        return False


def _usable(configs: Mapping[str, Mapping[str, str]]) -> dict[str, MetricsSubscription]:
    """The valid subscriptions; another program may have written invalid ones to the tree."""
    found: dict[str, MetricsSubscription] = {}
    for name, own in configs.items():
        try:
            found[name] = subscription(own)
        except ApiError as error:
            logger.error(
                "subscription %s is invalid and ignored: %s", one_line(name), error.message
            )
    return found


def _selectors(context: RequestContext) -> dict[str, str | None]:
    """The attributes that subscriptions match clients by, without the client instance id."""
    peer = context.peer
    name, version = peer.software
    return {
        "client_id": context.client_id,
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": peer.host.removeprefix("/"),
        "client_source_port": peer.address.rpartition(":")[2],
    }
