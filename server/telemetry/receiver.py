"""Takes what clients push, for `/metrics` to show (KIP-714).

Apache Kafka offers its clients to push where it has a reporter that takes it; Kavka does where it
serves `/metrics`. Owns the timer by which clients and their series are forgotten.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from kavka.seams import Clock, Jobs, Pool, Random, Tasks, Timer
from kavka.server.cluster.entity_configs import TopicConfigs
from kavka.server.config.subscriptions import Subscription, subscription
from kavka.server.config.value_types import one_line
from kavka.server.runtime import cooperative
from kavka.server.runtime.lazy_imports import import_one_by_one
from kavka.server.telemetry.clients import Clients, Instance
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
"""What one push may inflate to."""

WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of pushes that wait to be read, which is done one after the other; further ones are throttled."""

POINTS_A_SLICE: Final = 250
"""Numbers put into their series before the loop gets a turn, at some 5 us each."""

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
"""What reads a push, each behind those that it imports: 30 ms in one go."""


class Telemetry:
    """One broker's."""

    def __init__(
        self, configs: TopicConfigs, *, clock: Clock, tasks: Tasks, jobs: Jobs, random: Random
    ) -> None:
        self._configs = configs
        self._clock = clock
        self._tasks = tasks
        self._jobs = jobs
        self.clients = Clients(lambda: random_uuid(random))
        self.series = Series()
        self.pushes = 0
        """That were read."""
        self.bad_pushes = 0
        self._timer: Timer | None = None
        self._last: asyncio.Future[None] | None = None
        """The end of the last push that is being read, or waits for it."""
        self._waiting_bytes = 0
        self._stale = True
        self._is_loaded = False
        configs.on_change(self._changed)

    def ask(self, context: RequestContext, wanted: UUID | None) -> Instance:
        """What a client is to push. ApiError."""
        self._follow()
        instance = self.clients.ask(wanted, _selectors(context), self._clock.now_ms())
        self._belongs_to(context, instance)
        return instance

    def push(self, context: RequestContext, request: Any, size_max: int) -> Instance:
        """The client that may push what it asks to. ApiError."""
        self._follow()
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
        self._belongs_to(context, instance)
        return instance

    async def take(
        self, instance: Instance, client_id: str | None, codec: int, data: bytes
    ) -> None:
        """Read what a client has pushed. ApiError INVALID_RECORD, or THROTTLING_QUOTA_EXCEEDED."""
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
            await self._keep(instance, client_id, found)
        except (ValueError, ApiError) as failure:
            self.bad_pushes += 1
            told = failure.message if isinstance(failure, ApiError) else failure
            client = instance.client_instance_id
            logger.warning("client %s pushed metrics that can't be read: %s", client, told)
            raise ApiError(ErrorCode.INVALID_RECORD) from failure
        finally:
            self._waiting_bytes -= len(data)
            if self._last is done:
                self._last = None
            if not done.done():
                done.set_result(None)

    async def _read(self, codec: int, data: bytes) -> Sequence[Point]:
        """The numbers. ApiError or ValueError for what is damaged or too much."""
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

    async def _keep(
        self, instance: Instance, client_id: str | None, found: Sequence[Point]
    ) -> None:
        self.pushes += 1
        until_ms = self._clock.now_ms() + instance.kept_ms
        for start in range(0, max(1, len(found)), POINTS_A_SLICE):
            if start:
                await self._tasks.sleep(0)
            part = found[start : start + POINTS_A_SLICE]
            self.series.add(instance.client_instance_id, client_id, part, until_ms)

    def close(self) -> None:
        """Nobody is forgotten any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _belongs_to(self, context: RequestContext, instance: Instance) -> None:
        """Forget the client with its connection; and in time."""
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

    def _follow(self) -> None:
        """Go by the subscriptions as they are now."""
        if self._stale:
            self._stale = False
            self.clients.subscribe(_usable(self._configs.subscriptions()))


def is_installed() -> bool:
    """Whether the library that reads pushes is there: the extra `telemetry`."""
    try:
        return find_spec("opentelemetry.proto.metrics") is not None
    except ModuleNotFoundError:
        return False


def _usable(configs: Mapping[str, Mapping[str, str]]) -> dict[str, Subscription]:
    """Without those that came into the tree by another way than this broker's checks."""
    found: dict[str, Subscription] = {}
    for name, own in configs.items():
        try:
            found[name] = subscription(own)
        except ApiError as error:
            logger.error("subscription %s is not in force: %s", one_line(name), error.message)
    return found


def _selectors(context: RequestContext) -> dict[str, str | None]:
    """What subscriptions choose clients by, but for the instance's id."""
    peer = context.peer
    name, version = peer.software
    return {
        "client_id": context.client_id,
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": peer.host.removeprefix("/"),
        "client_source_port": peer.address.rpartition(":")[2],
    }
