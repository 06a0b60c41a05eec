"""Decodes request frames, calls their handlers, and encodes the responses.

`HANDLERS` is the only list of served APIs; ApiVersions is computed from it.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import cache
from importlib import import_module
from types import CoroutineType, ModuleType
from typing import Any, Final, TypeAlias

from kavka.server import handlers
from kavka.server.broker import Broker
from kavka.server.connections import produce_fast_path
from kavka.server.connections.fast_path import FastPath, Remember
from kavka.server.coordinators import group_coordinator, transaction_coordinator
from kavka.server.replica import log_cleaner
from kavka.server.request import log as request_log
from kavka.server.request.context import BadRequest, Peer, RequestContext, Response
from kavka.server.request.results import Call, DelayedResponse, HandlerResult
from kavka.server.request.sliced_responses import EncodedResponse, encode_in_slices
from kavka.server.runtime import cooperative
from kavka.wire import header
from kavka.wire.api import Api
from kavka.wire.apis import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    get_telemetry_subscriptions,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    push_telemetry,
    sync_group,
    txn_offset_commit,
    update_features,
    write_txn_markers,
)
from kavka.wire.codec.frames import encode_response
from kavka.wire.codec.long_messages import decode_in_steps
from kavka.wire.errors import ApiError, ErrorCode, clear_tracebacks

logger = logging.getLogger(__name__)

BIG_BYTES: Final = 4 * 1024
"""Larger requests are decoded in slices. Up to this size decoding takes at most 4 ms, which is the
case of only empty names."""

Handler: TypeAlias = Callable[[Broker, RequestContext, Any], HandlerResult]

_Row: TypeAlias = tuple[Api, Handler]


class LazyHandler:
    """An API's handler, whose module in `kavka.server.handlers` is imported at its first call."""

    def __init__(self, name: str) -> None:
        self.__module__ = f"kavka.server.handlers.{name}"
        self._handle: Callable[[Any, Any, Any], Any] | None = None

    def __call__(self, broker: Any, context: Any, request: Any) -> Any:
        handle = self._handle
        if handle is None:
            handle = self._handle = import_module(self.__module__).handle
        return handle(broker, context, request)


def _row(api_module: ModuleType) -> _Row:
    """An API of `kavka.wire.apis` with its handler in `kavka.server.handlers`, which has the same
    module name: at once if that package imports it at the start, lazily otherwise."""
    name = api_module.__name__.rpartition(".")[2]
    imported = getattr(handlers, name, None)
    return api_module.API, LazyHandler(name) if imported is None else imported.handle


def _by_key(*api_modules: ModuleType) -> Mapping[int, _Row]:
    rows = [_row(module) for module in api_modules]
    table = {api.key: (api, handler) for api, handler in rows}
    if len(table) != len(rows):
        raise ValueError("an API has two rows")
    return table


HANDLERS: Final = _by_key(
    produce,
    fetch,
    find_coordinator,
    list_offsets,
    metadata,
    heartbeat,
    join_group,
    leave_group,
    sync_group,
    consumer_group_heartbeat,
    consumer_group_describe,
    offset_commit,
    offset_fetch,
    describe_groups,
    list_groups,
    delete_groups,
    offset_delete,
    api_versions,
    create_topics,
    delete_topics,
    delete_records,
    create_partitions,
    elect_leaders,
    alter_partition_reassignments,
    list_partition_reassignments,
    init_producer_id,
    add_partitions_to_txn,
    add_offsets_to_txn,
    end_txn,
    txn_offset_commit,
    write_txn_markers,
    describe_transactions,
    list_transactions,
    offset_for_leader_epoch,
    describe_configs,
    alter_configs,
    incremental_alter_configs,
    list_config_resources,
    describe_log_dirs,
    alter_replica_log_dirs,
    describe_cluster,
    describe_producers,
    describe_topic_partitions,
    describe_quorum,
    update_features,
    get_telemetry_subscriptions,
    push_telemetry,
)


@cache
def between_brokers() -> Mapping[int, _Row]:
    """The APIs that a broker of a cluster serves as well."""
    # lazy imports: a standalone broker needs none of them
    from kavka.wire.apis import (
        allocate_producer_ids,
        alter_partition,
        controlled_shutdown,
        leader_and_isr,
        stop_replica,
        update_metadata,
    )

    return _by_key(
        leader_and_isr,
        update_metadata,
        stop_replica,
        alter_partition,
        controlled_shutdown,
        allocate_producer_ids,
    )


def served(*, in_cluster: bool) -> Mapping[int, _Row]:
    """The APIs of a broker, by key."""
    return {**HANDLERS, **between_brokers()} if in_cluster else HANDLERS


TELEMETRY: Final = (get_telemetry_subscriptions.API, push_telemetry.API)
"""Served only if a receiver of client metrics is configured (KIP-714)."""

LAZY_MODULES: Final = (
    *group_coordinator.MODULES,
    *transaction_coordinator.MODULES,
    *log_cleaner.MODULES,
    *(handler.__module__ for _, handler in HANDLERS.values() if isinstance(handler, LazyHandler)),
)
"""Modules imported lazily or in the background, in that order."""


def _remember_heartbeat(*succeeded: Any) -> None:
    # lazy import, not before there are groups: see `kavka.server.runtime.lazy_imports`
    from kavka.server.connections import heartbeat_fast_path

    heartbeat_fast_path.remember(*succeeded)


def _remember_list_offsets(*succeeded: Any) -> None:
    # lazy import, not before there is a consumer: see `kavka.server.runtime.lazy_imports`
    from kavka.server.connections import list_offsets_fast_path

    list_offsets_fast_path.remember(*succeeded)


def _remember_fetch(*succeeded: Any) -> None:
    # lazy import, not before there is a reader: see `kavka.server.runtime.lazy_imports`
    from kavka.server.connections import fetch_fast_path

    fetch_fast_path.remember(*succeeded)


FAST_PATHS: Final[Mapping[int, Remember]] = {
    fetch.API.key: _remember_fetch,
    produce.API.key: produce_fast_path.remember,
    heartbeat.API.key: _remember_heartbeat,
    list_offsets.API.key: _remember_list_offsets,
}
"""The APIs with a fast path for repeated requests."""


_PRODUCE_KEY: Final = produce.API.key.to_bytes(2, "big")


class Dispatcher:
    """Decodes requests, calls handlers and encodes responses, for all connections of a broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._requests = broker.requests
        self.now_s = broker.requests.now_s
        self._disabled_apis = () if broker.telemetry is not None else TELEMETRY
        self._handlers = served(in_cluster=broker.control is not None)
        self._stats = {key: broker.requests.of(api) for key, (api, _) in self._handlers.items()}

    def fast_path(self) -> FastPath:
        """A new connection's fast path for repeated requests."""
        return FastPath(self._broker, FAST_PATHS)

    def is_produce(self, frame: memoryview) -> bool:
        """Whether a request is a Produce."""
        return frame[: len(_PRODUCE_KEY)] == _PRODUCE_KEY

    def call(self, peer: Peer, frame: memoryview) -> Call:
        """Run the handler of one request up to its first wait. BadRequest: close the connection."""
        try:
            key, version, correlation_id, id_length = header.read_fixed(frame)
        except struct.error:
            raise BadRequest(f"request of {len(frame)} bytes has an incomplete header") from None
        row = self._handlers.get(key)
        if row is None or row[0] in self._disabled_apis:
            raise BadRequest(f"unknown API key {key}, version {version}")
        api, _ = row
        if not api.serves(version):
            return self._unsupported(api, peer, frame)
        try:
            if version >= api.first_with_client_id:
                client_id, position = header.read_client_id(frame, id_length)
            else:
                client_id, position = None, header.BYTES_WITHOUT_CLIENT_ID
            if version >= api.first_flexible:
                position = header.skip_tags(frame, position)
            if len(frame) > BIG_BYTES and api is not produce.API:  # its records are not decoded
                decoding = decode_in_steps(api, version, frame, position)
                decoded = cooperative.run(self._broker.tasks, decoding)
                if not isinstance(decoded, tuple):
                    context = RequestContext(peer, version, correlation_id, client_id)
                    return self._call_after_decoding(row, context, frame, decoded)
                request, end = decoded
            else:
                request, end = api.decoder(version)(frame, position)
        except ValueError as failure:
            raise _malformed(api, version, failure) from failure
        except (IndexError, struct.error) as failure:
            raise _truncated(api, version, frame) from failure
        if end > len(frame):
            raise _truncated(api, version, frame)
        context = RequestContext(peer, version, correlation_id, client_id)
        result = self._handle(row, context, request, len(frame), peer.arrived_s)
        return Call(api, context, request, result)

    def _handle(
        self, row: _Row, context: RequestContext, request: Any, size: int, arrived_s: float
    ) -> HandlerResult:
        """Count a request of `size` bytes, and call its handler."""
        api, handler = row
        tally = self._stats[api.key].tallies[context.version]
        if request_log.is_on() is not self._requests.logs:
            self._requests.follow_log()
        if tally.left:
            tally.left -= 1
        else:
            context.timing = self._requests.begin(tally, arrived_s)
        try:
            result = handler(self._broker, context, request)
        except BadRequest:
            raise
        except Exception as failure:
            result = self.failed(api, context, request, failure)
            clear_tracebacks(failure)
        if result.__class__ is CoroutineType:
            result = self._awaited(api, context, request, result)
        if context.timing is not None:
            context.timing.handled()
            if result is None:
                context.timing.written(context, size, 0, 0)
        return result

    def make(
        self,
        api: Api,
        context: RequestContext,
        request: Any,
        delayed: DelayedResponse,
        is_complete: bool,
    ) -> Response | Coroutine[Any, Any, Response | BadRequest]:
        """Build the response of a request that waited in the purgatory, or return a coroutine that
        does. `is_complete`: its condition held; False: it timed out."""
        try:
            made = delayed.make(is_complete)
        except Exception as failure:
            made = self.failed(api, context, request, failure)
            clear_tracebacks(failure)
        if made.__class__ is CoroutineType:
            return self._awaited(api, context, request, made)
        return made

    async def _awaited(
        self, api: Api, context: RequestContext, request: Any, result: Awaitable[Any]
    ) -> Response | BadRequest:
        """The response of a handler that waits. Exceptions, for example when the coordinator
        moves away meanwhile, become an error response and do not fail the task."""
        try:
            return await result
        except BadRequest as bad_request:
            return bad_request
        except Exception as failure:
            try:
                return self.failed(api, context, request, failure)
            except BadRequest as bad_request:
                return bad_request

    def _call_after_decoding(
        self,
        row: _Row,
        context: RequestContext,
        frame: memoryview,
        decoding: Awaitable[Any],
    ) -> Call:
        """The rest of `call` for a big request. It is decoded in slices of the loop, and the
        connection's next request waits until it has been handled."""
        context.applied = self._broker.tasks.future()
        context.keep_frame()
        rest = _decode(row[0], context.version, frame, decoding)
        result = self._handle_decoded(row, context, rest, len(frame), context.peer.arrived_s)
        return Call(row[0], context, None, result)

    async def _handle_decoded(
        self,
        row: _Row,
        context: RequestContext,
        decoding: Awaitable[Any],
        size: int,
        arrived_s: float,
    ) -> Response | BadRequest:
        """The response to a request that is decoded in slices; it is encoded in slices too."""
        api, tasks, applied = row[0], self._broker.tasks, context.applied
        assert applied is not None, "the connection's next request waits for it"
        try:
            request = await decoding
            context.applied = None
            result = self._handle(row, context, request, size, arrived_s)
        except BadRequest as bad_request:
            applied.set_result(None)
            return bad_request
        except BaseException:
            applied.set_result(None)
            raise
        is_in_progress = isinstance(result, Awaitable) and context.is_in_progress(result)
        if context.applied is not None:
            context.applied.add_done_callback(lambda _: applied.set_result(None))
        elif not is_in_progress:
            applied.set_result(None)
        if isinstance(result, Awaitable):
            try:
                result = await result
            except Exception as failure:  # a future's
                result = self.failed(api, context, request, failure)
            finally:
                if is_in_progress:
                    applied.set_result(None)
        if isinstance(result, EncodedResponse | BadRequest):
            return result
        return await encode_in_slices(tasks, api, context, result)

    def _unsupported(self, api: Api, peer: Peer, frame: memoryview) -> Call:
        """Only ApiVersions responds to an unsupported version: in version 0 with code 35, so that
        a newer client can downgrade (KIP-511). Its header must be complete."""
        _, version, correlation_id, id_length = header.read_fixed(frame)
        if api is not api_versions.API:
            raise BadRequest(f"{api.name} v{version} is not served")
        try:
            _, position = header.read_client_id(frame, id_length)
            if version >= api.first_flexible:
                header.skip_tags(frame, position)
        except (IndexError, ValueError, struct.error) as failure:
            raise _truncated(api, version, frame) from failure
        context = RequestContext(peer, api_versions.FALLBACK_VERSION, correlation_id, None)
        response = api.error_response(None, ErrorCode.UNSUPPORTED_VERSION, context.version)
        return Call(api, context, None, response)

    def failed(
        self, api: Api, context: RequestContext, request: Any, failure: BaseException
    ) -> Response:
        """The error response to a request whose handler raised."""
        if isinstance(failure, ApiError):
            return api.error_response(request, failure.code, context.version)
        logger.error(
            "%s v%d from %s (client id %r, correlation id %d) failed",
            api.name,
            context.version,
            context.peer.address,
            context.client_id,
            context.correlation_id,
            exc_info=failure,
        )
        if api is produce.API and not produce.expects_response(request):
            raise BadRequest("Produce with acks=0 failed") from failure
        return api.error_response(request, ErrorCode.UNKNOWN_SERVER_ERROR, context.version)

    def drop_frame_views(self, api: Api, request: Any) -> None:
        """Remove views of the frame from the request, as the frame's buffer is about to be
        reused."""
        if api is produce.API:
            produce.release_records(request)

    def encode(self, api: Api, context: RequestContext, response: Response) -> list[Any]:
        """Encode a response as a list of buffers, and count its error codes.

        BadRequest if it can't be encoded: replacement characters make a name that is not UTF-8
        longer, so one of 32,767 bytes no longer fits into a STRING.
        """
        if response.__class__ is EncodedResponse:
            return self._encoded(api, context, response)
        self._stats[api.key].count_errors(response)
        try:
            return encode_response(api, context.version, context.correlation_id, response)
        except struct.error as failure:
            raise BadRequest(
                f"the response to {api.name} v{context.version} can't be encoded: {failure}"
            ) from failure

    def _encoded(self, api: Api, context: RequestContext, encoded: EncodedResponse) -> list[Any]:
        if encoded.throttle_time_ms:  # rare: encode it again
            encoded.response.throttle_time_ms = encoded.throttle_time_ms
            return self.encode(api, context, encoded.response)
        counts = self._stats[api.key].errors
        for code, count in encoded.errors.items():
            counts[code] += count
        return encoded.frame

    def throttle_ms(self, context: RequestContext, response: Response, request_bytes: int) -> int:
        """Set the response's throttle time and return it; the connection mutes itself for that
        long (KIP-219)."""
        throttle_ms = self._broker.quotas.throttle_ms(context, request_bytes)
        if throttle_ms:
            response.throttle_time_ms = throttle_ms
        return throttle_ms


async def _decode(api: Api, version: int, frame: memoryview, decoding: Awaitable[Any]) -> Any:
    """Decode the rest of a request, which must not exceed its frame. BadRequest."""
    try:
        request, end = await decoding
    except ValueError as failure:
        raise _malformed(api, version, failure) from failure
    except (IndexError, struct.error) as failure:
        raise _truncated(api, version, frame) from failure
    if end > len(frame):
        raise _truncated(api, version, frame)
    return request


def _malformed(api: Api, version: int, failure: ValueError) -> BadRequest:
    return BadRequest(f"malformed {api.name} v{version}: {failure}")


def _truncated(api: Api, version: int, frame: memoryview) -> BadRequest:
    return BadRequest(
        f"malformed {api.name} v{version}: it exceeds its frame of {len(frame)} bytes"
    )
