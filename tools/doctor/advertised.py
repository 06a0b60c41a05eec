"""Judges the addresses under which brokers tell clients to come to them: a client uses the
bootstrap address for its first request only."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from kavka.tools.doctor.asks_ports import Connected, Resolved
from kavka.tools.doctor.findings import Finding, error, ok, warning
from kavka.tools.doctor.port_protocol import PortProtocol, Reply

STEP: Final = "advertised"
KEY: Final = "advertised.listeners"
_LISTENER: Final = re.compile(r"([^,:/\s]+)://\[?([^,/\]]*?)\]?:(\d+)")


class Way(NamedTuple):
    """What came of going to the advertised address of a broker."""

    broker_id: int
    host: str
    port: int
    resolved: Resolved
    tried: Sequence[Connected] = ()
    reply: Reply | None = None
    expects_tls: bool = False
    cluster_id: str | None = None
    """Of the one that answers there; None if it does not say."""
    is_this_broker: bool | None = None
    """Whether it is the broker that the address is advertised for; None if that is not known."""
    failure: str = ""
    """Why it does not answer Kafka's requests."""
    config: Mapping[str, str | None] = MappingProxyType({})
    """The broker's settings, if it tells them on some way."""
    better: str = ""
    """An address, HOST:PORT, that does lead to this broker; "" if none is known."""
    asked_from: Sequence[str] = ()
    """The addresses of the host that was asked for the brokers."""

    @property
    def works(self) -> bool:
        """Whether a client reaches the broker there."""
        return self.is_reached and not self.failure and self.is_this_broker is not False

    @property
    def is_reached(self) -> bool:
        """Whether Kafka's protocol, or TLS as expected, is spoken there."""
        expected = PortProtocol.TLS if self.expects_tls else PortProtocol.KAFKA
        return self.reply is not None and self.reply.protocol is expected


def judge_way(way: Way, cluster_id: str | None) -> Finding:
    """Whether clients reach a broker where it tells them to come to."""
    address = f"{way.host}:{way.port}"
    subject = f"broker {way.broker_id}"
    problem, fault = _fault(way, cluster_id)
    is_loopback = _is_loopback(way.resolved.addresses) and not _is_loopback(way.asked_from)
    if not problem and is_loopback:
        return warning(
            STEP,
            "loopback",
            subject,
            f"tells clients to come to {address}, which is the machine of the client itself: it "
            "works here, and on no other machine",
            _line(way),
        )
    if not problem:
        return ok(STEP, subject, f"is reached at {address}, where it tells clients to come to")
    if problem == "silent":
        return error(
            STEP, problem, subject, f"tells clients to come to {address}, {fault}", _hanging(way)
        )
    why = ""
    if is_loopback:
        why = f": {way.host} is the machine of the client itself, whichever that is"
    return error(
        STEP, problem, subject, f"tells clients to come to {address}, {fault}{why}", _line(way)
    )


def _fault(way: Way, cluster_id: str | None) -> tuple[str, str]:
    """What is wrong with the address, by name and in words; ("", "") if nothing is."""
    if way.resolved.failure:
        return "unresolvable", f"which has no address here ({way.resolved.failure})"
    if all(attempt.failure for attempt in way.tried):
        if any(attempt.is_late for attempt in way.tried):
            return "no-answer", "which does not answer: it is down, or not reachable from here"
        return "refused", "where nothing listens"
    if way.reply is not None and way.reply.protocol in (PortProtocol.SILENT, PortProtocol.CLOSES):
        return "silent", "where a connection is accepted, but nothing is answered"
    if not way.is_reached:
        protocol = "nothing" if way.reply is None else way.reply.protocol.value
        return "not-kafka", f"where {protocol} is spoken"
    if way.cluster_id is not None and cluster_id is not None and way.cluster_id != cluster_id:
        return "other-cluster", f"where a broker of another cluster answers ({way.cluster_id})"
    if way.is_this_broker is False:
        return "other-broker", "where another broker of the cluster answers"
    if way.failure:
        return "fails", f"where Kafka's requests fail: {way.failure}"
    return "", ""


def _hanging(way: Way) -> str:
    return (
        f"look whether broker {way.broker_id} hangs (its log, its CPU); if it runs well, look what "
        f"else listens at that address, and at {KEY}"
    )


def _line(way: Way) -> str:
    """The line to change."""
    now = way.config.get(KEY) or way.config.get("listeners") or ""
    better = way.better or f"HOST:{way.port}"
    listeners = []
    is_replaced = False
    for name, host, port in _LISTENER.findall(now):
        if not is_replaced and int(port) == way.port and host in ("", way.host):
            listeners.append(f"{name}://{better}")
            is_replaced = True
        elif way.config.get(KEY):
            listeners.append(f"{name}://{host}:{port}")
    if not is_replaced:
        listeners = [f"LISTENER://{better}"]
    where = f"in server.properties of broker {way.broker_id}"
    meant = "" if way.better else "\nHOST: a name or address by which clients reach that machine"
    had = f"\n(it is now {KEY}={now})" if way.config.get(KEY) else ""
    return f"{where}: {KEY}={','.join(listeners)}{meant}{had}\nthen restart it"


def _is_loopback(addresses: Sequence[str]) -> bool:
    return bool(addresses) and all(
        ipaddress.ip_address(address.partition("%")[0]).is_loopback for address in addresses
    )
