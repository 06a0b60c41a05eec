"""The broker's settings, loaded from the file, environment variables and overrides.

Settings are plain attributes, fast to read. The given values, and warnings about those without
effect, are kept for DescribeConfigs and the log of the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kavka.log.settings import LogSettings
from kavka.server.config.address_limits import OF_LISTENERS, ListenerLimits, listener_key
from kavka.server.config.cluster_rows import CONNECT
from kavka.server.config.dynamic_rules import (
    DYNAMIC_ORIGIN,
    NO_DYNAMIC_CONFIGS,
    Dynamic,
    effective_given,
    is_accepted_dynamically,
    value_of,
)
from kavka.server.config.features import GROUP_VERSION, GROUP_VERSION_MAX, TRANSACTION_VERSION
from kavka.server.config.listeners import Listener
from kavka.server.config.log_defaults import default_log_settings
from kavka.server.config.problems import Problems
from kavka.server.config.rows import Config, Status
from kavka.server.config.rules import Rules, problem, set_broker_id
from kavka.server.config.sources import Given, gather
from kavka.server.config.standalone_broker import replica_warnings
from kavka.server.config.suggestions import suggestion
from kavka.server.config.table import BROKER, base_name, broker_row
from kavka.server.config.value_types import BadValue, Value, one_line

if TYPE_CHECKING:
    from kavka.server.config.zookeeper_security import ZooKeeperSecurity

UNKNOWN: Final = "not a setting of Apache Kafka 4.3 or of Kavka"
_AUTHORIZER_SETTINGS: Final = ("allow.everyone.if.no.acl.found", "super.users")
"""Settings of Apache Kafka's authorizers, which are not in its own config table."""
SUGGESTIONS_MAX: Final = 20
"""Suggestions per start: each takes milliseconds, and the environment may have many variables that
begin with `KAVKA_`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The broker's settings; fields are documented by their rows in `broker_rows`.

    Sizes are bytes where the name says so, times are in the unit that ends the name.
    """

    broker_id: int
    """`ID_TO_GENERATE` until a broker of a cluster has got one."""
    broker_rack: str | None
    listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...]
    """As sent to clients. A host "" and a port 0 are filled in by the server."""
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
    """Listeners that advertise to each client the address it connected to."""
    kavka_http_listener: Listener | None
    """Listener of the HTTP server (metrics, health)."""
    log_dirs: tuple[str, ...]
    lost_log_dirs: tuple[str, ...]
    """Ids of log directories that are declared lost."""
    num_recovery_threads_per_data_dir: int
    num_replica_alter_log_dirs_threads: int | None
    replica_alter_log_dirs_io_max_bytes_per_second: int
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
    zookeeper_connect: str | None
    """None: the broker is alone, and keeps its metadata itself."""
    zookeeper_connection_timeout_ms: int | None
    zookeeper_max_in_flight_requests: int
    zookeeper_session_timeout_ms: int
    zookeeper_security: ZooKeeperSecurity | None
    """None: the broker is alone."""
    reserved_broker_max_id: int
    controller_socket_timeout_ms: int
    controlled_shutdown_enable: bool
    controlled_shutdown_max_retries: int
    controlled_shutdown_retry_backoff_ms: int
    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_seconds: int
    leader_imbalance_per_broker_percentage: int
    kavka_fast_failover_enable: bool
    replica_fetch_backoff_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_lag_time_max_ms: int
    replica_socket_timeout_ms: int
    replica_selector_class: str | None
    follower_replication_throttled_rate: int
    leader_replication_throttled_rate: int
    replication_quota_window_num: int
    replication_quota_window_size_seconds: int
    kavka_transaction_version: int
    """The level of `transaction.version`: the setting's, unless UpdateFeatures set one."""
    group_version: int
    """The level of `group.version`."""
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
    telemetry_max_bytes: int
    transactional_id_expiration_ms: int

    listener_limits: tuple[tuple[str, ListenerLimits], ...]
    """Each listener with its limits on connections."""
    topic_defaults: LogSettings
    """The log settings of a topic without configs of its own."""
    given: Mapping[str, Given] = field(repr=False, compare=False)
    """Static configs, by key."""
    dynamic: Dynamic = field(repr=False, compare=False)
    """Dynamic configs; the fields include them already."""
    warnings: tuple[str, ...] = field(repr=False, compare=False)
    """Log messages of the start: given settings that have no effect."""

    @property
    def in_cluster(self) -> bool:
        """Whether other brokers may share the coordination service."""
        return self.zookeeper_connect is not None

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
        """The given values by key, over the defaults. Raises ConfigError."""
        problems = Problems()
        set_broker_id(given, problems)
        return cls._of(given, NO_DYNAMIC_CONFIGS, problems)

    def with_dynamic(self, dynamic: Dynamic) -> BrokerSettings:
        """The static settings with `dynamic` on top; ConfigError if they are invalid.

        The warnings stay those of the start.
        """
        return self._of(self.given, dynamic, Problems(), self.warnings)

    def with_generated_id(self, broker_id: int) -> BrokerSettings:
        """The settings of the broker that has got this id."""
        given = {**self.given, **dict.fromkeys(("node.id", "broker.id"), Given(str(broker_id), ""))}
        return replace(self, broker_id=broker_id, given=given)

    def warnings_without_effect(self, dynamic: Mapping[str, str]) -> list[str]:
        """Log messages about those of these dynamic configs that have no effect."""
        given = {key: Given(text, DYNAMIC_ORIGIN) for key, text in dynamic.items()}
        problems = Problems()
        checked = _checked(given, problems)
        problems.raise_any()
        without_effect = (
            {**checked.without_effect, UNKNOWN: checked.unknown}
            if checked.unknown
            else checked.without_effect
        )
        return [
            *_warnings_by_note(without_effect),
            *_missing_listener_warnings(given, self.listeners),
        ]

    def value(self, key: str) -> Value:
        """The value of any setting, honoured or not; KeyError for an unknown one."""
        return value_of(effective_given(self.given, self.dynamic))(key)

    @classmethod
    def _of(
        cls,
        start: Mapping[str, Given],
        dynamic: Dynamic,
        problems: Problems,
        warnings: Sequence[str] | None = None,
    ) -> BrokerSettings:
        given = effective_given(start, dynamic)
        checked = _checked(given, problems)
        values = checked.values
        fields: dict[str, Any] = {
            row.field: values.get(row.name, row.default) for row in BROKER.values() if row.field
        }
        fields.update(Rules(values, given, problems).fields())
        fields["group_version"] = dynamic.levels.get(GROUP_VERSION, GROUP_VERSION_MAX)
        if TRANSACTION_VERSION in dynamic.levels:
            fields["kavka_transaction_version"] = dynamic.levels[TRANSACTION_VERSION]
        if warnings is None:
            warnings = (
                *_warnings_by_note(checked.without_effect),
                *_unknown_warnings(checked.unknown, given),
                *_missing_listener_warnings(given, fields["listeners"]),
                *_cluster_warnings(values, given),
            )
        problems.raise_any(warnings)
        return cls(
            **fields,
            topic_defaults=default_log_settings(values),
            given=start,
            dynamic=dynamic,
            warnings=tuple(warnings),
        )


class Checked(NamedTuple):
    """The given values, parsed and validated by their rows."""

    values: Mapping[str, Value]
    """By key, without invalid ones."""
    without_effect: Mapping[str, Sequence[str]]
    """Keys that have no effect, by the reason."""
    unknown: Sequence[str]


def _checked(given: Mapping[str, Given], problems: Problems) -> Checked:
    """Parse and validate each value. Invalid and refused ones are reported to `problems`."""
    values: dict[str, Value] = {}
    without_effect: dict[str, list[str]] = {}
    unknown: list[str] = []
    for key, setting in given.items():
        row = broker_row(base_name(key))
        if row is None:
            unknown.append(key)
            continue
        try:
            value = row.parse(setting.value)
        except BadValue:
            problems.add(problem(key, setting, f"the value must be {row.allowed}"))
            continue
        if row.name == key or row.name in OF_LISTENERS:
            values[key] = value
        note = row.note
        if row.name not in (key, *OF_LISTENERS) and not note:
            note = "a setting for one listener is not honoured yet"
        taken = setting.origin == DYNAMIC_ORIGIN and is_accepted_dynamically(row)
        if row.status is Status.REFUSED and not taken:
            _refuse(key, setting, row, problems)
        elif note and not (row.name == key and value == row.default):
            without_effect.setdefault(note, []).append(key)
    return Checked(values, without_effect, unknown)


def _refuse(key: str, given: Given, row: Config, problems: Problems) -> None:
    """Reports a value that is not the default, and the earlier values it overrides."""
    setting: Given | None = given
    while setting is not None:
        if row.name != key or not _is_default(setting, row):
            problems.add(problem(key, setting, f"not supported: {row.note}", setting.removal))
        setting = setting.covers


def _is_default(given: Given, row: Config) -> bool:
    try:
        return row.parse(given.value) == row.default
    except BadValue:
        return False


def _warnings_by_note(without_effect: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A warning for each reason why settings have no effect."""
    for note, keys in without_effect.items():
        yield f"no effect: {', '.join(map(one_line, keys))} ({note})"


def _cluster_warnings(values: Mapping[str, Value], given: Mapping[str, Given]) -> Iterable[str]:
    """Warnings about settings that are for clusters, or for other clusters."""
    if CONNECT not in values:
        return replica_warnings(values, given)
    # imported in clusters only
    from kavka.server.config.zookeeper_security import unused_settings

    return unused_settings(values)


def _unknown_warnings(keys: Sequence[str], given: Mapping[str, Given]) -> Iterator[str]:
    """A warning for each name without a row; for the first ones with a suggestion."""
    for number, key in enumerate(keys):
        origin = given[key].origin
        if key in _AUTHORIZER_SETTINGS:
            yield f"no effect: {key} ({origin}): a setting of an authorizer; ACLs come later"
            continue
        meant = suggestion(key) if number < SUGGESTIONS_MAX else ""
        hint = f"; did you mean {meant}?" if meant else ""
        yield f"no effect: {one_line(key)} ({origin}): {UNKNOWN}{hint}"


def _missing_listener_warnings(
    given: Iterable[str], listeners: Sequence[Listener]
) -> Iterator[str]:
    """A warning about limits of listeners that do not exist."""
    known = [
        listener_key(listener.name, setting) for listener in listeners for setting in OF_LISTENERS
    ]
    of_listeners = [key for key in given if key != base_name(key) in OF_LISTENERS]
    without_effect = [key for key in of_listeners if key not in known]
    if without_effect:
        yield f"no effect: {', '.join(without_effect)} (no listener has this name, in lower case)"
