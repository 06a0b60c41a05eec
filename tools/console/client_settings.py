"""A Java client's properties as kafka-python's arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.options import is_whole
from kavka.tools.admin.security import security_of
from kavka.tools.client_security import protocol_of, without_security
from kavka.tools.properties import without_effect

_IGNORED: Final = frozenset(
    {
        "buffer.memory",  # counted by the tool itself
        "group.protocol",
        *(f"{part}.{kind}" for part in ("key", "value") for kind in ("serializer", "deserializer")),
    }
)
_OBJECTS: Final = frozenset(
    {
        *("api_version", "default_offset_commit_callback", "kafka_client", "metric_reporters"),
        *("partitioner", "proxy_url", "selector", "socket_options", "socks5_proxy"),
    }
)
"""Arguments that no text can be given for, or that Java's clients do not have."""

_LEAST: Final = {
    "auto.commit.interval.ms": 0,
    "batch.size": 0,
    "buffer.memory": 0,
    "fetch.max.bytes": 0,
    "fetch.max.wait.ms": 0,
    "fetch.min.bytes": 0,
    "linger.ms": 0,
    "max.block.ms": 0,
    "max.in.flight.requests.per.connection": 1,
    "max.partition.fetch.bytes": 0,
    "max.poll.interval.ms": 1,
    "max.poll.records": 1,
    "max.request.size": 0,
    "metadata.max.age.ms": 0,
    "receive.buffer.bytes": -1,
    "reconnect.backoff.max.ms": 0,
    "reconnect.backoff.ms": 0,
    "request.timeout.ms": 0,
    "retries": 0,
    "retry.backoff.ms": 0,
    "send.buffer.bytes": -1,
}
"""The least values, Java's: kafka-python takes others too."""

_JAVAS: Final = {"reconnect_backoff_max_ms": 1_000}
"""Defaults that are others in Java: kafka-python may come back 30 s after the broker."""

_ASSIGNORS: Final = "org.apache.kafka.clients.consumer."
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_LEVELS: Final = ("read_committed", "read_uncommitted")
_RESETS: Final = ("earliest", "latest", "none")


def arguments(properties: Mapping[str, str], known: Mapping[str, Any]) -> dict[str, Any]:
    """`known`: the client's arguments with their default values, which tell their types.

    What the client does not know is named on standard error and left out, as Java's clients do.
    Failed if a value is none.
    """
    found: dict[str, Any] = {name: value for name, value in _JAVAS.items() if name in known}
    unknown = []
    for name, text in without_security(properties).items():
        argument = name.replace(".", "_")
        if name in _IGNORED:
            continue
        if argument not in known or argument in _OBJECTS or "_" in name:
            unknown.append(name)
            continue
        found[argument] = _value(name, text.strip(), known[argument])
    without_effect(unknown)
    return found | _security(properties)


def _security(properties: Mapping[str, str]) -> dict[str, Any]:
    security = security_of(properties)
    found: dict[str, Any] = {"security_protocol": protocol_of(security)}
    if security.tls is not None:
        found["ssl_context"] = security.tls
        found["ssl_check_hostname"] = security.tls.check_hostname
    if security.login is not None and security.login.bearer is not None:
        from kavka.tools.console.bearer_login import Tokens  # only then

        found["sasl_mechanism"] = security.login.mechanism
        found["sasl_oauth_token_provider"] = Tokens(security.login.bearer)
    elif security.login is not None and security.login.kerberos is not None:
        from kavka.tools.console import kerberos_login  # only then

        found["sasl_mechanism"] = security.login.mechanism
        kerberos_login.use_for(security.login.kerberos)
    elif security.login is not None:
        found |= {
            "sasl_mechanism": security.login.mechanism,
            "sasl_plain_username": security.login.user,
            "sasl_plain_password": security.login.password,
        }
        from kavka.tools.console import scram_login  # only then

        scram_login.use_for(security.login)
    return found


def _value(name: str, text: str, default: Any) -> Any:
    if name == "acks":
        return _acks(text)
    if name == "compression.type":
        return None if _one_of(name, text, _CODECS) == "none" else text
    if name == "isolation.level":
        return _one_of(name, text.lower(), _LEVELS)
    if name == "auto.offset.reset":
        return _one_of(name, text.lower(), _RESETS)
    if name == "bootstrap.servers":
        return [server.strip() for server in text.split(",")]
    if name == "partition.assignment.strategy":
        return [_assignor(assignor.strip()) for assignor in text.split(",")]
    if isinstance(default, bool):
        return _one_of(name, text.lower(), ("true", "false")) == "true"
    if isinstance(default, int | float) or name.endswith((".bytes", ".ms")):
        return number(name, text)
    return text


def _acks(text: str) -> int:
    """Of the words of `acks`."""
    _one_of("acks", text.lower(), ("all", "-1", "0", "1"))
    return -1 if text.lower() == "all" else int(text)


def _assignor(name: str) -> Any:
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    known = {
        "RangeAssignor": RangePartitionAssignor,
        "RoundRobinAssignor": RoundRobinPartitionAssignor,
        "StickyAssignor": StickyPartitionAssignor,
        "CooperativeStickyAssignor": CooperativeStickyAssignor,
    }
    short = name.removeprefix(_ASSIGNORS)
    return known[_one_of("partition.assignment.strategy", short, tuple(known))]


def _one_of(name: str, text: str, values: tuple[str, ...]) -> str:
    if text not in values:
        raise Failed(f"Invalid value {text} for configuration {name}: it is {', '.join(values)}")
    return text


def number(name: str, text: str) -> int:
    """Of a property. Failed."""
    if not is_whole(text, 64):
        raise Failed(f"Invalid value {text} for configuration {name}: it is no number")
    least = _LEAST.get(name)
    if least is not None and int(text) < least:
        raise Failed(f"Invalid value {text} for configuration {name}: it is {least} at least")
    return int(text)
