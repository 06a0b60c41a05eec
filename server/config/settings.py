"""The broker's settings: what its parts read, and how they come from file, variables and overrides.

Hot code reads plain attributes. What was given, and what of it has no effect, stays with them for
DescribeConfigs and for the start-up's log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kavka.log.settings import LogSettings
from kavka.server.config.cleaner_rows import CLEANER_THREAD_BYTES_MIN
from kavka.server.config.connection_limits import (
    CREATION_RATE,
    MAX_CONNECTIONS,
    OF_LISTENERS,
    ListenerLimits,
    limits_of_listeners,
    listener_key,
    parse_overrides,
)
from kavka.server.config.consumer_group_rows import broken_rule
from kavka.server.config.dynamic import NOTHING, ORIGIN, Dynamic, effective_given, value_of
from kavka.server.config.listeners import (
    Listener,
    check_advertised,
    check_ports,
    parse_address,
    parse_listeners,
    parse_protocol_map,
)
from kavka.server.config.rows import Config, Status
from kavka.server.config.sources import ConfigError, Given, gather
from kavka.server.config.table import BROKER, base_name, broker_row
from kavka.server.config.topics import default_log_settings
from kavka.server.config.values import BadValue, Value, one_line, to_text

_DEFAULT_BROKER_ID: Final = "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """What the broker is told; fields are documented by their rows in `broker_rows`.

    Sizes are bytes where the name says so, times are in the unit that ends the name.
    """

    broker_id: int
    broker_rack: str | None
    listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...]
    """As told to clients. A host "" and a port 0 are for the server to fill in."""
    inter_broker_listener_name: str
    socket_listen_backlog_size: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    queued_max_request_bytes: int
    connections_max_idle_ms: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: tuple[tuple[str, int], ...]
    """Hosts, as they were written, and their limits."""
    max_connection_creation_rate: int
    dialled_listeners: tuple[str, ...]
    """Listeners whose clients are told the address that they dialled."""
    kavka_http_listener: Listener | None
    """Where pages are served over HTTP."""
    log_dirs: tuple[str, ...]
    num_recovery_threads_per_data_dir: int
    auto_create_topics_enable: bool
    default_replication_factor: int
    delete_topic_enable: bool
    num_partitions: int
    offsets_commit_timeout_ms: int
    offsets_load_buffer_size: int
    offsets_topic_compression_codec: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    request_timeout_ms: int
    group_consumer_assignment_interval_ms: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_heartbeat_interval_ms: int
    group_consumer_max_assignment_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    group_consumer_min_assignment_interval_ms: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_regex_refresh_interval_ms: int
    group_consumer_session_timeout_ms: int
    group_coordinator_rebalance_protocols: tuple[str, ...]
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_enable: bool
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_buffer_size: int
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_threads: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_initial_task_delay_ms: int
    log_retention_check_interval_ms: int
    offset_metadata_max_bytes: int
    offsets_retention_check_interval_ms: int
    offsets_retention_minutes: int
    producer_id_expiration_check_interval_ms: int
    producer_id_expiration_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    kavka_transaction_version: int
    add_partitions_to_txn_retry_backoff_max_ms: int
    add_partitions_to_txn_retry_backoff_ms: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_max_timeout_ms: int
    transaction_partition_verification_enable: bool
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_state_log_load_buffer_size: int
    transaction_state_log_min_isr: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_segment_bytes: int
    transactional_id_expiration_ms: int

    listener_limits: tuple[tuple[str, ListenerLimits], ...]
    """Each listener with its limits on connections."""
    topic_defaults: LogSettings
    """What a topic without configs of its own gets."""
    given: Mapping[str, Given] = field(repr=False, compare=False)
    """What was set for the start, by key."""
    dynamic: Dynamic = field(repr=False, compare=False)
    """What was set since; the fields have it already."""
    warnings: tuple[str, ...] = field(repr=False, compare=False)
    """Sentences for the log of the start: settings that were given and have no effect."""

    @classmethod
    def load(
        cls,
        properties: bytes = b"",
        *,
        path: str = "server.properties",
        environ: Mapping[str, str] | None = None,
        overrides: Sequence[str] = (),
    ) -> BrokerSettings:
        """Defaults, then the file's content, then `KAVKA_...` variables, then `key=value`.

        `path` is the file's name for error messages. Raises ConfigError.
        """
        return cls.of(gather(properties, path, environ or {}, overrides))

    @classmethod
    def of(cls, given: dict[str, Given]) -> BrokerSettings:
        """Defaults, and over them what was given, by key. Raises ConfigError."""
        _set_broker_id(given)
        return cls._of(given, NOTHING)

    def with_dynamic(self, dynamic: Dynamic) -> BrokerSettings:
        """The settings of the start with `dynamic` on top; ConfigError if that can't be."""
        return self._of(self.given, dynamic)

    def idle_warnings(self, dynamic: Mapping[str, str]) -> list[str]:
        """Sentences for the log: which of these, made while running, have no effect."""
        given = {key: Given(text, ORIGIN) for key, text in dynamic.items()}
        return [*_checked(given)[1], *_of_no_listener(given, self.listeners)]

    def value(self, key: str) -> Value:
        """What setting `key` is, honoured or not; KeyError if nobody knows it."""
        return value_of(effective_given(self.given, self.dynamic))(key)

    @classmethod
    def _of(cls, start: Mapping[str, Given], dynamic: Dynamic) -> BrokerSettings:
        given = effective_given(start, dynamic)
        values, warnings = _checked(given)
        _check_roles(values, given)
        _check_cleaner(values, given)
        _check_groups(values, given)
        fields: dict[str, Any] = {
            row.field: values.get(row.name, row.default) for row in BROKER.values() if row.field
        }
        fields.update(_listener_fields(values, given))
        fields.update(_connection_fields(values, given, fields["listeners"]))
        fields["log_dirs"] = _log_dirs(values)
        fields["kavka_http_listener"] = _http_listener(values, given)
        return cls(
            **fields,
            topic_defaults=default_log_settings(values),
            given=start,
            dynamic=dynamic,
            warnings=(*warnings, *_of_no_listener(given, fields["listeners"])),
        )


def _error(key: str, given: Given, reason: str) -> ConfigError:
    row = broker_row(base_name(key))
    shown = "[hidden]" if row is None or row.sensitive else given.value
    return ConfigError(f"{key}={shown} ({given.origin}): {reason}", key)


def _set_broker_id(given: dict[str, Given]) -> None:
    """node.id and broker.id are one setting; each gets the value of the other."""
    node = given.get("node.id")
    broker = given.get("broker.id")
    if broker and broker.value.strip() == "-1":  # its default: not set
        broker = None
    if node and broker and node.value.strip() != broker.value.strip():
        raise _error("node.id", node, f"differs from broker.id={broker.value} ({broker.origin})")
    chosen = node or broker or Given(_DEFAULT_BROKER_ID, "")
    given["node.id"] = given["broker.id"] = chosen


def _checked(given: Mapping[str, Given]) -> tuple[dict[str, Value], list[str]]:
    """Values by key, and warnings. Raises ConfigError for a bad or refused value."""
    values: dict[str, Value] = {}
    idle: dict[str, list[str]] = {}
    for key, one in given.items():
        row = broker_row(base_name(key))
        if row is None:
            idle.setdefault("not a setting of Apache Kafka 4.3 or of Kavka", []).append(key)
            continue
        value = _parsed(key, one, row)
        if row.name == key or row.name in OF_LISTENERS:
            values[key] = value
        note = row.note
        if row.name not in (key, *OF_LISTENERS) and not note:
            note = "a setting for one listener is not honoured yet"
        if not note or (row.name == key and value == row.default):
            continue
        if row.status is Status.REFUSED:
            raise _error(key, one, f"not supported: {note}")
        idle.setdefault(note, []).append(key)
    return values, [
        f"no effect: {', '.join(map(one_line, keys))} ({note})" for note, keys in idle.items()
    ]


def _parsed(key: str, given: Given, row: Config) -> Value:
    try:
        return row.parse(given.value)
    except BadValue as error:
        raise _error(key, given, f"the value must be {row.allowed}") from error


def _check_roles(values: Mapping[str, Value], given: Mapping[str, Given]) -> None:
    roles = values.get("process.roles")
    if isinstance(roles, tuple) and "broker" not in roles:
        raise _error(
            "process.roles",
            given["process.roles"],
            "Kavka is a broker with a controller inside and cannot be a controller alone",
        )


def _check_cleaner(values: Mapping[str, Value], given: Mapping[str, Given]) -> None:
    key, of_threads = "log.cleaner.dedupe.buffer.size", "log.cleaner.threads"
    size = values.get(key, BROKER[key].default)
    threads = values.get(of_threads, BROKER[of_threads].default)
    assert isinstance(size, int)
    assert isinstance(threads, int)
    if size // max(1, threads) <= CLEANER_THREAD_BYTES_MIN:
        key = key if key in given else of_threads
        raise _error(
            key,
            given[key],
            "log.cleaner.dedupe.buffer.size must be more than 1 MiB "
            "for each of log.cleaner.threads",
        )


def _items(key: str, values: Mapping[str, Value]) -> tuple[str, ...]:
    value = values.get(key, BROKER[key].default)
    return value if isinstance(value, tuple) else ()


def _log_dirs(values: Mapping[str, Value]) -> tuple[str, ...]:
    """Each directory once, as Kafka does with a repeated one."""
    return tuple(dict.fromkeys(_items("log.dirs", values) or _items("log.dir", values)))


def _listener_fields(values: Mapping[str, Value], given: Mapping[str, Given]) -> dict[str, Any]:
    """Listeners and advertised listeners, without those for a KRaft controller."""
    key = "listener.security.protocol.map"
    try:
        protocols = parse_protocol_map(to_text(values.get(key, BROKER[key].default)) or "")
        closed = [name.upper() for name in _items("controller.listener.names", values)]

        def of_broker(items: Sequence[str]) -> list[str]:
            return [item for item in items if item.partition(":")[0].upper() not in closed]

        key = "listeners"
        listeners = parse_listeners(of_broker(_items(key, values)), protocols)
        check_ports(listeners)
        advertised = listeners
        if "advertised.listeners" in values:
            key = "advertised.listeners"
            advertised = parse_listeners(of_broker(_items(key, values)), protocols)
        check_advertised(advertised, listeners)
        key = "inter.broker.listener.name"
        own = (to_text(values.get(key)) or "PLAINTEXT").upper()
        names = [listener.name for listener in advertised]
        if own not in names:
            raise ValueError(f"{own} is none of the advertised listeners {', '.join(names)}")
    except ValueError as error:
        raise _error(key, given.get(key, Given("", "not set")), str(error)) from error
    return {
        "listeners": listeners,
        "advertised_listeners": advertised,
        "inter_broker_listener_name": own,
    }


def _connection_fields(
    values: Mapping[str, Value], given: Mapping[str, Given], listeners: Sequence[Listener]
) -> dict[str, Any]:
    """Limits on connections, and the listeners that answer with the address dialled."""

    def number(key: str) -> int:
        value = values.get(key, BROKER[base_name(key)].default)
        assert isinstance(value, int), key
        return value

    names = [listener.name for listener in listeners]
    key = "max.connections.per.ip.overrides"
    try:
        overrides = parse_overrides(to_text(values.get(key)) or "")
        key = "max.connections.per.ip"
        if number(key) == 0 and not overrides:
            raise ValueError("can be 0 only if max.connections.per.ip.overrides is set")
        key = "queued.max.request.bytes"
        if 0 < number(key) < number("socket.request.max.bytes"):
            raise ValueError("must be at least socket.request.max.bytes, or -1 for no limit")
        key = "kavka.advertised.dialled.listeners"
        dialled = tuple(dict.fromkeys(name.upper() for name in _items(key, values)))
        for name in dialled:
            if name not in names:
                raise ValueError(f"{name} is not among the listeners {', '.join(names)}")
        own = {key: number(key) for key in values if base_name(key) in OF_LISTENERS}
        for key in own:
            if base_name(key) != key and own[key] == 0:
                raise ValueError("must be at least 1")
    except ValueError as error:
        raise _error(key, given.get(key, Given("", "not set")), str(error)) from error
    broker = ListenerLimits(number(MAX_CONNECTIONS), number(CREATION_RATE))
    return {
        "max_connections_per_ip_overrides": overrides,
        "dialled_listeners": dialled,
        "listener_limits": limits_of_listeners(names, own, broker),
    }


def _check_groups(values: Mapping[str, Value], given: Mapping[str, Given]) -> None:
    """Times of consumer groups lie within their bounds."""
    broken = broken_rule(values)
    if broken is not None:
        key, rule = broken
        raise _error(key, given.get(key, Given(to_text(values.get(key)) or "", "default")), rule)


def _http_listener(values: Mapping[str, Value], given: Mapping[str, Given]) -> Listener | None:
    key = "kavka.http.listener"
    address = to_text(values.get(key))
    if not address:
        return None
    try:
        return parse_address("HTTP", address)
    except ValueError as error:
        raise _error(key, given[key], str(error)) from error


def _of_no_listener(given: Iterable[str], listeners: Sequence[Listener]) -> Iterator[str]:
    """A warning for limits of listeners that there are not."""
    known = [
        listener_key(listener.name, setting) for listener in listeners for setting in OF_LISTENERS
    ]
    of_listeners = [key for key in given if key != base_name(key) in OF_LISTENERS]
    idle = [key for key in of_listeners if key not in known]
    if idle:
        yield f"no effect: {', '.join(idle)} (no listener has this name, in lower case)"
