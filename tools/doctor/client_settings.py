"""Judges the settings of a producer, consumer or admin client, as Java's clients have them, against
each other and against a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from kavka.tools.doctor.findings import Finding, error, ok, warning
from kavka.tools.doctor.versions import Served
from kavka.wire.apis import consumer_group_heartbeat, init_producer_id, produce

STEP: Final = "client-config"

Settings: TypeAlias = Mapping[str, str | None]

DEFAULTS: Final[Settings] = {
    "acks": "all",
    "batch.size": "16384",
    "delivery.timeout.ms": "120000",
    "enable.idempotence": "true",
    "fetch.max.wait.ms": "500",
    "group.protocol": "classic",
    "heartbeat.interval.ms": "3000",
    "linger.ms": "5",
    "max.in.flight.requests.per.connection": "5",
    "max.poll.interval.ms": "300000",
    "max.request.size": "1048576",
    "request.timeout.ms": "30000",
    "retries": "2147483647",
    "session.timeout.ms": "45000",
    "transaction.timeout.ms": "60000",
}
"""Of Apache Kafka 4.3's clients."""

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "acks": ("all", "-1", "0", "1"),
    "auto.offset.reset": ("earliest", "latest", "none"),
    "compression.type": ("none", "gzip", "snappy", "lz4", "zstd"),
    "enable.auto.commit": ("true", "false"),
    "enable.idempotence": ("true", "false"),
    "group.protocol": ("classic", "consumer"),
    "isolation.level": ("read_committed", "read_uncommitted"),
    "security.protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
}
IN_FLIGHT_MAX: Final = 5
RESET_BY_DURATION: Final = "by_duration:"
NUMBERS: Final = frozenset(name for name, value in DEFAULTS.items() if (value or "").isdecimal())
NOT_WITH_CONSUMER_PROTOCOL: Final = (
    "heartbeat.interval.ms",
    "partition.assignment.strategy",
    "session.timeout.ms",
)


class Environment(NamedTuple):
    """What the settings are used on."""

    broker: Settings
    """A broker's settings; {} if it does not tell them."""
    served: Served
    racks: frozenset[str]


class _Given:
    """The client's settings, with the defaults of those that are not given."""

    def __init__(self, config: Settings, environment: Environment) -> None:
        self.config = config
        self.environment = environment

    def has(self, *names: str) -> bool:
        """Whether one is in the file."""
        return any(name in self.config for name in names)

    def text(self, name: str) -> str:
        return (self.config.get(name) or DEFAULTS.get(name) or "").strip()

    def number(self, name: str) -> int:
        text = self.text(name)
        return int(text if text.lstrip("-").isdecimal() else DEFAULTS[name] or 0)

    def limit(self, name: str) -> int | None:
        """A number of the broker's settings, if it tells them."""
        text = self.environment.broker.get(name)
        return int(text) if text is not None and text.lstrip("-").isdecimal() else None


def judge_settings(config: Settings, environment: Environment) -> list[Finding]:
    """All that can't work, or works otherwise than it looks."""
    given = _Given(config, environment)
    findings = [*_values(config)]
    for check in _CHECKS:
        findings += check(given)
    return findings or [ok(STEP, "the client's settings", "go together, and with the brokers'")]


def _values(config: Settings) -> Iterator[Finding]:
    for name, value in sorted(config.items()):
        text = (value or "").strip()
        allowed = CHOICES.get(name, ())
        known = text.lower() in {choice.lower() for choice in allowed}
        if name == "auto.offset.reset" and text.startswith(RESET_BY_DURATION):
            known = True
        if allowed and not known:
            yield _error(
                "invalid-value", name, f"is {text!r}: no such value", f"one of {', '.join(allowed)}"
            )
        elif name in NUMBERS and not text.lstrip("-").isdecimal():
            yield _error(
                "invalid-value", name, f"is {text!r}, which is no number", "a whole number"
            )


def _idempotence(given: _Given) -> Iterator[Finding]:
    is_transactional = given.has("transactional.id")
    if given.text("enable.idempotence").lower() == "false":
        if is_transactional:
            yield _error(
                "transactional-without-idempotence",
                "transactional.id",
                "is set, and enable.idempotence is false: the producer refuses to start",
                "leave enable.idempotence out",
            )
        return
    is_wanted = is_transactional or given.has("enable.idempotence")
    in_flight = "max.in.flight.requests.per.connection"
    for name, is_fit, rule in (
        # without idempotence, if nobody has asked for it
        ("acks", given.text("acks") in ("all", "-1") or not is_wanted, "all"),
        ("retries", given.number("retries") > 0 or not is_wanted, "more than 0"),
        (in_flight, given.number(in_flight) <= IN_FLIGHT_MAX, f"{IN_FLIGHT_MAX} at most"),
    ):
        if not is_fit:
            yield _error(
                "idempotence",
                name,
                f"is {given.text(name)}, with which an idempotent or transactional producer refuses"
                " to start",
                f"{name} has to be {rule}; or set enable.idempotence=false",
            )


def _transactions(given: _Given) -> Iterator[Finding]:
    if not given.has("transactional.id", "transaction.timeout.ms"):
        return
    limit, timeout_ms = (
        given.limit("transaction.max.timeout.ms"),
        given.number("transaction.timeout.ms"),
    )
    if limit is not None and timeout_ms > limit:
        yield _error(
            "transaction-timeout",
            "transaction.timeout.ms",
            f"is {timeout_ms}, more than transaction.max.timeout.ms={limit} of the brokers: "
            "initTransactions fails with INVALID_TRANSACTION_TIMEOUT",
            f"set it to {limit} at most, or raise the brokers' limit",
        )
    if given.has("transactional.id") and init_producer_id.API.key not in given.environment.served:
        yield _error(
            "no-transactions",
            "transactional.id",
            "is set, and the brokers serve no transactions",
            "use brokers of Apache Kafka 0.11 or newer",
        )


def _timeouts(given: _Given) -> Iterator[Finding]:
    delivery, request = given.number("delivery.timeout.ms"), given.number("request.timeout.ms")
    if given.has("delivery.timeout.ms") and delivery < given.number("linger.ms") + request:
        yield _error(
            "delivery-timeout",
            "delivery.timeout.ms",
            f"is {delivery}, less than linger.ms + request.timeout.ms "
            f"({given.number('linger.ms')} + {request}): the producer refuses to start",
            "raise it, or lower request.timeout.ms",
        )
    wait = given.number("fetch.max.wait.ms")
    if given.has("fetch.max.wait.ms", "request.timeout.ms") and wait >= request:
        yield _error(
            "fetch-wait",
            "fetch.max.wait.ms",
            f"is {wait}, not less than request.timeout.ms={request}: each fetch without new records"
            " times out, and the connection is closed",
            "lower it, or raise request.timeout.ms",
        )


def _sizes(given: _Given) -> Iterator[Finding]:
    limit = given.limit("message.max.bytes")
    if limit is None:
        return
    if given.has("batch.size") and given.number("batch.size") > limit:
        yield _error(
            "batch-size",
            "batch.size",
            f"is {given.number('batch.size')}, more than message.max.bytes={limit} of the brokers: "
            "full batches are refused with MESSAGE_TOO_LARGE",
            f"set it to {limit} at most",
        )
    if given.has("max.request.size") and given.number("max.request.size") > limit:
        yield _warning(
            "request-size",
            "max.request.size",
            f"is {given.number('max.request.size')}, more than message.max.bytes={limit} of the "
            "brokers: the producer lets larger records through, and the brokers refuse them "
            "unless their topic sets max.message.bytes",
            f"set it to {limit}, or raise max.message.bytes of the topics (and "
            "replica.fetch.max.bytes)",
        )


def _group(given: _Given) -> Iterator[Finding]:
    if given.text("group.protocol").lower() == "consumer":
        yield from _consumer_protocol(given)
        return
    if not given.has("session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms"):
        return
    session, beat = given.number("session.timeout.ms"), given.number("heartbeat.interval.ms")
    least, most = (
        given.limit("group.min.session.timeout.ms"),
        given.limit("group.max.session.timeout.ms"),
    )
    if (least is not None and session < least) or (most is not None and session > most):
        yield _error(
            "session-timeout",
            "session.timeout.ms",
            f"is {session}, and the brokers allow {least} to {most}: joining a group fails with "
            "INVALID_SESSION_TIMEOUT",
            "choose one between, or change group.min.session.timeout.ms and "
            "group.max.session.timeout.ms of the brokers",
        )
    if beat >= session:
        yield _error(
            "heartbeat",
            "heartbeat.interval.ms",
            f"is {beat}, not less than session.timeout.ms={session}: the consumer refuses to start",
            "a third of session.timeout.ms at most",
        )
    elif beat * 3 > session:
        yield _warning(
            "heartbeat",
            "heartbeat.interval.ms",
            f"is {beat}, more than a third of session.timeout.ms={session}: one lost heartbeat may "
            "cost the member its place",
            "a third of session.timeout.ms at most",
        )
    if given.number("max.poll.interval.ms") < session:
        yield _warning(
            "poll-interval",
            "max.poll.interval.ms",
            f"is {given.number('max.poll.interval.ms')}, less than session.timeout.ms={session}: "
            "members that work for a while leave the group and come back",
            "longer than the longest work between two polls",
        )


def _consumer_protocol(given: _Given) -> Iterator[Finding]:
    for name in NOT_WITH_CONSUMER_PROTOCOL:
        if given.has(name):
            yield _error(
                "group-protocol",
                name,
                "can't be set with group.protocol=consumer: the consumer refuses to start",
                "leave it out: the brokers' group.consumer.* settings count instead",
            )
    if consumer_group_heartbeat.API.key not in given.environment.served:
        yield _error(
            "group-protocol",
            "group.protocol",
            "is consumer, which these brokers don't serve (KIP-848)",
            "set group.protocol=classic, or use brokers from 4.0 on",
        )


def _compression(given: _Given) -> Iterator[Finding]:
    _, highest = given.environment.served.get(produce.API.key, (0, produce.API.highest))
    if given.text("compression.type") == "zstd" and highest < 7:
        yield _error(
            "zstd",
            "compression.type",
            "is zstd, which these brokers don't know (KIP-110)",
            "use lz4, or brokers from 2.1 on",
        )


def _rack(given: _Given) -> Iterator[Finding]:
    rack = given.text("client.rack")
    if rack and rack not in given.environment.racks:
        racks = ", ".join(sorted(given.environment.racks)) or "none"
        yield _warning(
            "rack",
            "client.rack",
            f"is {rack}, and no broker has that rack (there are: {racks}): it reads from leaders",
            "set it to a broker.rack of the cluster",
        )


_CHECKS: Final[tuple[Callable[[_Given], Iterator[Finding]], ...]] = (
    _idempotence,
    _transactions,
    _timeouts,
    _sizes,
    _group,
    _compression,
    _rack,
)


def _error(problem: str, name: str, found: str, advice: str) -> Finding:
    return error(STEP, problem, name, found, advice)


def _warning(problem: str, name: str, found: str, advice: str) -> Finding:
    return warning(STEP, problem, name, found, advice)
