"""The broker's settings: what its parts read, and how they come from file, variables and overrides.

Hot code reads plain attributes. What was given, and what of it has no effect, stays with them for
DescribeConfigs and for the start-up's log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kavka.log.settings import LogSettings
from kavka.server.config.address_limits import OF_LISTENERS, ListenerLimits, listener_key
from kavka.server.config.dynamic_rules import (
    NOTHING,
    ORIGIN,
    Dynamic,
    effective_given,
    is_taken_while_running,
    value_of,
)
from kavka.server.config.features import GROUP_VERSION, GROUP_VERSION_MAX, TRANSACTION_VERSION
from kavka.server.config.listeners import Listener
from kavka.server.config.lone_broker import replica_warnings
from kavka.server.config.problems import Problems
from kavka.server.config.rows import Config, Status
from kavka.server.config.rules import Rules, problem, set_broker_id
from kavka.server.config.sources import Given, gather
from kavka.server.config.suggestions import suggestion
from kavka.server.config.table import BROKER, base_name, broker_row
from kavka.server.config.topic_overrides import default_log_settings
from kavka.server.config.value_types import BadValue, Value, one_line

UNKNOWN: Final = "not a setting of Apache Kafka 4.3 or of Kavka"
_OF_AUTHORIZER: Final = ("allow.everyone.if.no.acl.found", "super.users")
"""Settings of Apache Kafka's authorizers, which read them past its own table."""
_FIRST: Final = {
    "zookeeper.connect": "if there are topics, take them over with `kavka storage import`, then "
}
"""What to do before a refused setting is removed."""
SUGGESTIONS_MAX: Final = 20
"""Of a start: each takes milliseconds, and a directory of services may fill the environment."""


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
    lost_log_dirs: tuple[str, ...]
    """Ids of log directories that have been given up."""
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
    kavka_transaction_version: int
    """The level of `transaction.version`: the setting's, unless one was set while running."""
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
        problems = Problems()
        set_broker_id(given, problems)
        return cls._of(given, NOTHING, problems)

    def with_dynamic(self, dynamic: Dynamic) -> BrokerSettings:
        """The settings of the start with `dynamic` on top; ConfigError if that can't be.

        The warnings stay those of the start.
        """
        return self._of(self.given, dynamic, Problems(), self.warnings)

    def idle_warnings(self, dynamic: Mapping[str, str]) -> list[str]:
        """Sentences for the log: which of these, made while running, have no effect."""
        given = {key: Given(text, ORIGIN) for key, text in dynamic.items()}
        problems = Problems()
        checked = _checked(given, problems)
        problems.raise_any()
        idle = {**checked.idle, UNKNOWN: checked.unknown} if checked.unknown else checked.idle
        return [*_of_notes(idle), *_of_no_listener(given, self.listeners)]

    def value(self, key: str) -> Value:
        """What setting `key` is, honoured or not; KeyError if nobody knows it."""
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
                *_of_notes(checked.idle),
                *_of_unknown(checked.unknown, given),
                *_of_no_listener(given, fields["listeners"]),
                *replica_warnings(values, given),
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
    """What the rows say of the values that were given."""

    values: Mapping[str, Value]
    """By key, the bad ones left out."""
    idle: Mapping[str, Sequence[str]]
    """By the reason why, the keys that have no effect."""
    unknown: Sequence[str]


def _checked(given: Mapping[str, Given], problems: Problems) -> Checked:
    """What the rows say of each key. Bad and refused values are reported."""
    values: dict[str, Value] = {}
    idle: dict[str, list[str]] = {}
    unknown: list[str] = []
    for key, one in given.items():
        row = broker_row(base_name(key))
        if row is None:
            unknown.append(key)
            continue
        try:
            value = row.parse(one.value)
        except BadValue:
            problems.add(problem(key, one, f"the value must be {row.allowed}"))
            continue
        if row.name == key or row.name in OF_LISTENERS:
            values[key] = value
        note = row.note
        if row.name not in (key, *OF_LISTENERS) and not note:
            note = "a setting for one listener is not honoured yet"
        taken = one.origin == ORIGIN and is_taken_while_running(row)
        if row.status is Status.REFUSED and not taken:
            _refuse(key, one, row, problems)
        elif note and not (row.name == key and value == row.default):
            idle.setdefault(note, []).append(key)
    return Checked(values, idle, unknown)


def _refuse(key: str, given: Given, row: Config, problems: Problems) -> None:
    """Reports a value that is not the default, and what would count once it is removed."""
    one: Given | None = given
    while one is not None:
        if row.name != key or not _is_default(one, row):
            remedy = f"{_FIRST.get(key, '')}{one.removal}"
            problems.add(problem(key, one, f"not supported: {row.note}", remedy))
        one = one.covers


def _is_default(given: Given, row: Config) -> bool:
    try:
        return row.parse(given.value) == row.default
    except BadValue:
        return False


def _of_notes(idle: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A warning for each reason why settings have no effect."""
    for note, keys in idle.items():
        yield f"no effect: {', '.join(map(one_line, keys))} ({note})"


def _of_unknown(keys: Sequence[str], given: Mapping[str, Given]) -> Iterator[str]:
    """A warning for each name without a row; for the first ones, with what was meant."""
    for number, key in enumerate(keys):
        origin = given[key].origin
        if key in _OF_AUTHORIZER:
            yield f"no effect: {key} ({origin}): a setting of an authorizer; ACLs come later"
            continue
        meant = suggestion(key) if number < SUGGESTIONS_MAX else ""
        hint = f"; did you mean {meant}?" if meant else ""
        yield f"no effect: {one_line(key)} ({origin}): {UNKNOWN}{hint}"


def _of_no_listener(given: Iterable[str], listeners: Sequence[Listener]) -> Iterator[str]:
    """A warning for limits of listeners that there are not."""
    known = [
        listener_key(listener.name, setting) for listener in listeners for setting in OF_LISTENERS
    ]
    of_listeners = [key for key in given if key != base_name(key) in OF_LISTENERS]
    idle = [key for key in of_listeners if key not in known]
    if idle:
        yield f"no effect: {', '.join(idle)} (no listener has this name, in lower case)"
