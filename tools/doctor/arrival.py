"""Judges the way to a port: the name, the connection, and what is spoken there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kavka.tools.doctor import port_protocol
from kavka.tools.doctor.asks_ports import Connected, Resolved
from kavka.tools.doctor.findings import Finding, error, ok, warning
from kavka.tools.doctor.port_protocol import PortProtocol, Reply

NAME: Final = "name"
TCP: Final = "tcp"
PROTOCOL: Final = "protocol"

_OTHERS: Final[Mapping[PortProtocol, tuple[str, str, str]]] = {
    PortProtocol.HTTP: (
        "http",
        "speaks HTTP, not Kafka's protocol",
        "this is the port of a web page (metrics, a REST proxy, a console): use the port of the "
        "broker's listeners, 9092 unless set otherwise",
    ),
    PortProtocol.ZOOKEEPER: (
        "zookeeper",
        "speaks ZooKeeper's protocol, not Kafka's",
        "this is the address of zookeeper.connect: use the broker's own, 9092 unless set otherwise",
    ),
    PortProtocol.SSH: (
        "ssh",
        "speaks SSH, not Kafka's protocol",
        "use the port of the broker's listeners, 9092 unless set otherwise",
    ),
    PortProtocol.CLOSES: (
        "closes",
        "closes the connection when Kafka's first request comes",
        "if this is a broker, its log says why: max.connections or max.connections.per.ip may be "
        "reached, or a proxy stands before it and does not reach it. If not, use the broker's port",
    ),
    PortProtocol.SILENT: (
        "silent",
        "accepts the connection, but answers nothing",
        "the process there hangs or is stopped, or is no broker: look whether it uses the CPU, and "
        "at the end of its log",
    ),
}


def judge_name(host: str, resolved: Resolved) -> Finding:
    """Whether a host has an address."""
    if resolved.failure:
        return error(
            NAME,
            "unresolvable",
            host,
            f"has no address: {resolved.failure}",
            "correct the name, or add it to DNS or to /etc/hosts of this machine",
        )
    if host in resolved.addresses:
        return ok(NAME, host, "is an address")
    return ok(NAME, host, f"is {', '.join(resolved.addresses)}")


def judge_connections(subject: str, tried: Sequence[Connected]) -> Finding:
    """Whether one of a host's addresses accepts connections."""
    accepted = [attempt for attempt in tried if not attempt.failure]
    late = [attempt.address for attempt in tried if attempt.is_late]
    if accepted and late:
        return warning(
            TCP,
            "some-addresses-silent",
            subject,
            f"accepts connections at {accepted[0].address}, but {', '.join(late)} does not answer: "
            "clients that try it first wait for their timeout",
            "take the address that does not answer from the name, or let the broker listen there",
        )
    if accepted:
        first = accepted[0]
        return ok(TCP, subject, f"accepts connections ({first.address}, {first.took_ms:.1f} ms)")
    if late:
        return error(
            TCP,
            "no-answer",
            subject,
            "does not answer at all",
            "the host is down, or a firewall or security group on the way drops what is sent: "
            "allow this port, and look whether the address is right",
        )
    if all(attempt.is_refused for attempt in tried):
        return error(
            TCP,
            "refused",
            subject,
            "refuses connections: nothing listens there",
            "start the broker, or use the port of its `listeners`; a broker that listens on "
            "127.0.0.1 or localhost only can't be reached from other machines or containers",
        )
    failures = "; ".join(f"{attempt.address}: {attempt.failure}" for attempt in tried)
    return error(
        TCP,
        "unreachable",
        subject,
        f"can't be reached: {failures}",
        "look at the routes and the network settings of this machine",
    )


def judge_speech(subject: str, reply: Reply, *, expects_tls: bool) -> Finding:
    """Whether a port speaks what the client's settings say. A Kafka port is judged further by its
    versions, one with TLS by its certificate."""
    if reply.protocol is PortProtocol.TLS and not expects_tls:
        return error(
            "tls",
            "tls-at-plain-client",
            subject,
            "speaks TLS, and the client would not: it would wait in vain, or be disconnected",
            "use the port of a PLAINTEXT listener, or set security.protocol=SSL (SASL_SSL if it "
            "asks for a login) and ssl.truststore.location in the file for --command-config",
        )
    if reply.protocol is PortProtocol.TLS:
        return ok(PROTOCOL, subject, "speaks TLS")
    if expects_tls and reply.protocol is PortProtocol.KAFKA:
        return error(
            "tls",
            "plain-at-tls-client",
            subject,
            "speaks Kafka's protocol without TLS, and the client's settings ask for TLS",
            "use the port of an SSL listener, or set security.protocol=PLAINTEXT (SASL_PLAINTEXT "
            "if it asks for a login)",
        )
    if reply.protocol is PortProtocol.KAFKA:
        return ok(PROTOCOL, subject, "speaks Kafka's protocol")
    if reply.protocol in _OTHERS:
        problem, found, advice = _OTHERS[reply.protocol]
        return error(PROTOCOL, problem, subject, found, advice)
    return error(
        PROTOCOL,
        "not-kafka",
        subject,
        "speaks something that is not Kafka's protocol: it sends "
        f"{port_protocol.shown(reply.data)}",
        "use the port of the broker's listeners, 9092 unless set otherwise",
    )
