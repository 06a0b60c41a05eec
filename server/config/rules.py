"""Rules that involve several settings, and fields computed from several.

Each rule reports errors to the given `Problems` and continues, so that a start reports all errors
at once. Settings whose own value was already found invalid are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kavka.server.config.address_limits import (
    CREATION_RATE,
    MAX_CONNECTIONS,
    OF_LISTENERS,
    ListenerLimits,
    limits_of_listeners,
    parse_overrides,
)
from kavka.server.config.cleaner_rows import CLEANER_THREAD_BYTES_MIN
from kavka.server.config.cluster_rows import (
    CONNECT,
    FETCH_WAIT,
    ID_GENERATION,
    ID_TO_GENERATE,
    LAG_TIME,
    LEADER_SELECTOR,
    POSITIVE,
    RACK_SELECTOR,
    RESERVED_ID_MAX,
    SELECTOR,
    SOCKET_TIMEOUT,
)
from kavka.server.config.consumer_group_rows import broken_rules
from kavka.server.config.listeners import (
    Listener,
    check_advertised,
    check_ports,
    parse_address,
    parse_listeners,
    parse_protocol_map,
    unsupported_protocols,
)
from kavka.server.config.problems import ConfigError, Problems
from kavka.server.config.sources import Given
from kavka.server.config.table import BROKER, base_name, broker_row
from kavka.server.config.value_types import Value, one_line, to_text
from kavka.server.config.zookeeper_servers import parse_connect

if TYPE_CHECKING:
    from kavka.server.config.zookeeper_security import ZooKeeperSecurity

_DEFAULT_BROKER_ID: Final = "1"
_MAP: Final = "listener.security.protocol.map"
_BETWEEN_BROKERS: Final = "inter.broker.listener.name"
_OF_LISTENER_RULES: Final = ("listeners", "advertised.listeners", _MAP, "controller.listener.names")


def problem(key: str, given: Given | None, reason: str, remedy: str = "") -> ConfigError:
    """The error message for the value of `key`, with a remedy."""
    if given is None:
        text = f"{key} (not set)"
    else:
        row = broker_row(base_name(key))
        shown = "[hidden]" if row is None or row.sensitive else one_line(given.value)
        text = f"{key}={shown} ({given.origin})"
    return ConfigError(f"{text}: {one_line(reason)}" + (f"; {remedy}" if remedy else ""), key)


def set_broker_id(given: dict[str, Given], problems: Problems) -> None:
    """node.id and broker.id are one setting; each gets the value of the other. Without a value it
    is that of a standalone broker; beside others it is generated later."""
    node = given.get("node.id")
    broker = given.get("broker.id")
    if broker and broker.value.strip() == "-1":  # its default: not set
        broker = None
    if node and broker and node.value.strip() != broker.value.strip():
        reason = f"differs from broker.id={broker.value} ({broker.origin})"
        problems.add(problem("node.id", node, reason, "give only one of the two"))
    chosen = node or broker
    if chosen is None and CONNECT not in given:
        chosen = Given(_DEFAULT_BROKER_ID, "")
    if chosen is not None:
        given["node.id"] = given["broker.id"] = chosen


class Rules:
    """The rules, over the values of one broker."""

    def __init__(
        self, values: Mapping[str, Value], given: Mapping[str, Given], problems: Problems
    ) -> None:
        self._values = values
        self._given = given
        self._problems = problems

    def fields(self) -> dict[str, Any]:
        """The fields of BrokerSettings that do not come from a single row."""
        self._check_roles()
        self._check_cleaner()
        self._check_groups()
        self._check_cluster()
        fields = self._listener_fields()
        listeners: Sequence[Listener] = fields["listeners"]
        return {
            **fields,
            **self._connection_fields([listener.name for listener in listeners]),
            "zookeeper_security": self._zookeeper_security(),
            "broker_id": self._values.get("node.id", ID_TO_GENERATE),
            "log_dirs": self._log_dirs(),
            "kavka_http_listener": self._http_listener(),
        }

    def _report(self, key: str, reason: str, remedy: str = "") -> None:
        self._problems.add(problem(key, self._given.get(key), reason, remedy))

    def _number(self, key: str) -> int:
        value = self._values.get(key, BROKER[base_name(key)].default)
        assert isinstance(value, int), key
        return value

    def _items(self, key: str) -> tuple[str, ...]:
        value = self._values.get(key, BROKER[key].default)
        return value if isinstance(value, tuple) else ()

    def _text(self, key: str) -> str:
        row = BROKER.get(key)
        return to_text(self._values.get(key, row.default if row else None)) or ""

    def _check_roles(self) -> None:
        roles = self._values.get("process.roles")
        if isinstance(roles, tuple) and "broker" not in roles:
            reason = "Kavka is a broker with a controller inside and cannot be a controller alone"
            self._report("process.roles", reason, "set process.roles=broker,controller")

    def _check_cleaner(self) -> None:
        key, of_threads = "log.cleaner.dedupe.buffer.size", "log.cleaner.threads"
        threads = max(1, self._number(of_threads))
        if self._number(key) // threads <= CLEANER_THREAD_BYTES_MIN:
            self._report(
                key if key in self._given else of_threads,
                "log.cleaner.dedupe.buffer.size must be more than 1 MiB "
                "for each of log.cleaner.threads",
            )

    def _check_groups(self) -> None:
        """Check the rules of consumer group settings."""
        for key, rule in broken_rules(self._values):
            value = Given(to_text(self._values.get(key, BROKER[key].default)) or "", "default")
            self._problems.add(problem(key, self._given.get(key, value), rule))

    def _check_cluster(self) -> None:
        connect = self._values.get(CONNECT)
        if connect is not None:
            try:
                parse_connect(str(connect))
            except ValueError as error:
                self._report(CONNECT, str(error))
            self._check_id()
        selector = self._values.get(SELECTOR)
        if selector is not None and selector not in (LEADER_SELECTOR, RACK_SELECTOR):
            reason = "Kavka does not run Java plug-ins, and has two selectors of its own"
            self._report(SELECTOR, reason, f"set {SELECTOR}={RACK_SELECTOR}")
        for key in POSITIVE:
            if key in self._values and self._number(key) < 1:
                self._report(key, "must be at least 1")
        for key in (SOCKET_TIMEOUT, LAG_TIME):
            if self._number(FETCH_WAIT) > self._number(key):
                given = FETCH_WAIT if FETCH_WAIT in self._given else key
                self._report(given, f"{FETCH_WAIT} must be at most {key}")

    def _zookeeper_security(self) -> ZooKeeperSecurity | None:
        if CONNECT not in self._values:
            return None
        # imported in clusters only
        from kavka.server.config.zookeeper_security import security_of

        return security_of(self._values, self._given, self._report)

    def _check_id(self) -> None:
        """Check the id of a broker that may have others beside it, as Apache Kafka 3.9 does."""
        given = self._given.get("node.id")
        if not self._values.get(ID_GENERATION, True):
            if given is None:
                reason = f"{CONNECT} needs it, as {ID_GENERATION}=false"
                self._problems.add(problem("broker.id", None, reason, "set broker.id=1"))
        elif given is not None and given.origin and "node.id" in self._values:
            most = self._number(RESERVED_ID_MAX)
            if self._number("node.id") > most:
                reason = f"is above {RESERVED_ID_MAX}={most}: such ids are generated"
                self._report(
                    "broker.id", reason, f"raise {RESERVED_ID_MAX}, or set {ID_GENERATION}=false"
                )

    def _log_dirs(self) -> tuple[str, ...]:
        """Each directory once, as Kafka does with a repeated one."""
        return tuple(dict.fromkeys(self._items("log.dirs") or self._items("log.dir")))

    def _listener_fields(self) -> dict[str, Any]:
        """Listeners and advertised listeners, without those for a KRaft controller."""
        listeners = self._parsed_listeners("listeners")
        advertised = listeners
        key = "listeners"
        if "advertised.listeners" in self._values:
            key = "advertised.listeners"
            advertised = self._parsed_listeners(key)
        own = (self._text(_BETWEEN_BROKERS) or "PLAINTEXT").upper()
        if not self._problems.has(*_OF_LISTENER_RULES):
            self._check_listeners(listeners, advertised, key)
            names = [listener.name for listener in advertised]
            if own not in names:
                reason = f"{own} is none of the advertised listeners {', '.join(names)}"
                self._report(_BETWEEN_BROKERS, reason, f"set {_BETWEEN_BROKERS}={names[0]}")
        return {
            "listeners": listeners,
            "advertised_listeners": advertised,
            "inter_broker_listener_name": own,
        }

    def _parsed_listeners(self, key: str) -> tuple[Listener, ...]:
        closed = [name.upper() for name in self._items("controller.listener.names")]
        items = [item for item in self._items(key) if item.partition(":")[0].upper() not in closed]
        try:
            return parse_listeners(items)
        except ValueError as error:
            remedy = ""
            if not items:
                given = self._given.get("advertised.listeners")
                own = given.removal if given else ""
                remedy = "set listeners=PLAINTEXT://:9092" if key == "listeners" else own
            self._report(key, str(error), remedy)
            return ()

    def _check_listeners(
        self, listeners: Sequence[Listener], advertised: Sequence[Listener], key: str
    ) -> None:
        """`key` is the setting that `advertised` come from."""
        try:
            protocols = parse_protocol_map(self._text(_MAP))
        except ValueError as error:
            self._report(_MAP, str(error))
        else:
            if wrong := unsupported_protocols(listeners, protocols):
                plain = ",".join(f"{listener.name}:PLAINTEXT" for listener in listeners)
                remedy = f"set {_MAP}={plain} (without encryption, open to anyone who can connect)"
                self._report(_MAP, wrong, remedy)
        try:
            check_ports(listeners)
        except ValueError as error:
            self._report("listeners", str(error))
        try:
            check_advertised(advertised, listeners)
        except ValueError as error:
            self._report(key, str(error))

    def _connection_fields(self, names: Sequence[str]) -> dict[str, Any]:
        """Connection limits, and listeners that advertise the address the client connected to."""
        key = "max.connections.per.ip.overrides"
        overrides: tuple[tuple[str, int], ...] = ()
        try:
            overrides = parse_overrides(self._text(key))
        except ValueError as error:
            self._report(key, str(error))
        if self._number("max.connections.per.ip") == 0 and not self._text(key):
            self._report("max.connections.per.ip", f"can be 0 only if {key} is set")
        key = "queued.max.request.bytes"
        if 0 < self._number(key) < self._number("socket.request.max.bytes"):
            self._report(key, "must be at least socket.request.max.bytes, or -1 for no limit")
        own = {key: self._number(key) for key in self._values if base_name(key) in OF_LISTENERS}
        for key, number in own.items():
            if base_name(key) != key and number == 0:
                self._report(key, "must be at least 1")
        limits = ListenerLimits(self._number(MAX_CONNECTIONS), self._number(CREATION_RATE))
        return {
            "max_connections_per_ip_overrides": overrides,
            "dialled_listeners": self._dialled(names),
            "listener_limits": limits_of_listeners(names, own, limits),
        }

    def _dialled(self, names: Sequence[str]) -> tuple[str, ...]:
        key = "kavka.advertised.dialled.listeners"
        dialled = tuple(dict.fromkeys(name.upper() for name in self._items(key)))
        missing = ", ".join(name for name in dialled if name not in names)
        if missing and names:
            self._report(key, f"{missing} is not among the listeners {', '.join(names)}")
        return dialled

    def _http_listener(self) -> Listener | None:
        key = "kavka.http.listener"
        address = self._text(key)
        if not address:
            return None
        try:
            return parse_address("HTTP", address)
        except ValueError as error:
            self._report(key, str(error))
            return None
