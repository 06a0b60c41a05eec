"""The first part of a client's way: from a name to a broker that answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.client.login import GSSAPI, MECHANISMS, Login
from kavka.seams import Clock
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.security import security_of
from kavka.tools.doctor import port_protocol
from kavka.tools.doctor.arrival import judge_connections, judge_name, judge_speech
from kavka.tools.doctor.asks_ports import Port, Resolved, connect, exchange, listen, resolve
from kavka.tools.doctor.asks_tls import Trust, inside, look_at
from kavka.tools.doctor.certificates import judge_certificate
from kavka.tools.doctor.findings import Finding, Level, error, note
from kavka.tools.doctor.logins import Means, asks_for_login, judge_login
from kavka.tools.doctor.port_protocol import Mechanisms, PortProtocol, Reply
from kavka.tools.doctor.versions import Served, judge_versions

if TYPE_CHECKING:
    import ssl

PROTOCOL_KEY: Final = "security.protocol"
MECHANISM_KEY: Final = "sasl.mechanism"
IDENTIFICATION_KEY: Final = "ssl.endpoint.identification.algorithm"


class Client(NamedTuple):
    """How a client would speak, by its settings."""

    protocol: str
    """As PLAINTEXT."""
    trust: Trust | None
    """None without TLS."""
    means: Means
    """For a login."""
    checks_name: bool
    login: Login | None = None
    """None if there is none, or Kavka's tools can't do it."""
    secured_by: ssl.SSLContext | None = None
    """Of a client that logs in: what secrets are sent over, unlike what `trust` is for."""


class Arrived(NamedTuple):
    """What came of approaching an address."""

    port: Port
    findings: Sequence[Finding]
    resolved: Resolved
    served: Served | None = None
    """What the broker there serves; None if there is none, or it can't be asked."""


def client_of(config: Mapping[str, str], trust: Trust | None) -> Client:
    """By a Java client's settings."""
    protocol = config.get(PROTOCOL_KEY, "PLAINTEXT").upper()
    checks_name = bool(config.get(IDENTIFICATION_KEY, "https"))
    if not protocol.startswith("SASL_"):
        return Client(protocol, trust, Means(None), checks_name)
    mechanism = config.get(MECHANISM_KEY, GSSAPI)
    if mechanism not in MECHANISMS:
        return Client(protocol, trust, Means(mechanism), checks_name)
    try:
        security = security_of(config)
        if security.login is not None and security.login.bearer is not None:
            security.login.bearer()  # a file, or a server, may lack the token
    except Failed as failed:
        return Client(protocol, trust, Means(mechanism, True, str(failed)), checks_name)
    means = Means(mechanism, is_known=True)
    return Client(protocol, trust, means, checks_name, security.login, security.tls)


async def approach(port: Port, client: Client, clock: Clock) -> Arrived:
    """Go step by step, until one fails."""
    resolved = await resolve(port.host, port.within_s)
    findings = [judge_name(port.host, resolved)]
    if resolved.failure:
        return Arrived(port, findings, resolved)
    tried = await asyncio.gather(*(connect(address, port, clock) for address in resolved.addresses))
    findings.append(judge_connections(str(port), tried))
    if not _may_go_on(findings):
        return Arrived(port, findings, resolved)
    port = port.answers_at(tried)
    try:
        reply = await listen(port)
    except OSError as failure:
        findings.append(_lost(port, failure))
        return Arrived(port, findings, resolved)
    findings.append(judge_speech(str(port), reply, expects_tls=client.trust is not None))
    if not _may_go_on(findings):
        return Arrived(port, findings, resolved)
    data = reply.data
    if client.trust is not None:
        found, data = await _secured(port, client, client.trust, clock)
        findings += found
        if not data:
            return Arrived(port, findings, resolved)
    distrusts = any(finding.step == "tls" and finding.level is Level.ERROR for finding in findings)
    client = client._replace(means=client.means._replace(distrusts=distrusts))
    found, served = await _kafka(port, client, data)
    findings += found
    return Arrived(port, findings, resolved, served)


def _may_go_on(findings: Sequence[Finding]) -> bool:
    return findings[-1].level is not Level.ERROR


async def _secured(
    port: Port, client: Client, trust: Trust, clock: Clock
) -> tuple[list[Finding], bytes]:
    """What is wrong with TLS, and what answers Kafka's first request inside it; b"" if nothing can
    be asked there."""
    secured = await look_at(port, trust)
    findings = judge_certificate(
        str(port),
        secured,
        clock.now_ms() / 1000,
        checks_name=client.checks_name,
        trust=trust.source,
    )
    if trust.unread:
        findings.append(_unread(trust))
    if not secured.protocol or secured.wants_certificate:
        return findings, b""
    try:
        heard = await inside(port, trust)
    except OSError as failure:
        return [*findings, _lost(port, failure)], b""
    if port_protocol.protocol_of(heard) is not PortProtocol.KAFKA:
        reply = Reply(port_protocol.protocol_of(heard), heard.data)
        return [*findings, judge_speech(str(port), reply, expects_tls=False)], b""
    return findings, heard.data


async def _kafka(port: Port, client: Client, data: bytes) -> tuple[list[Finding], Served | None]:
    """The versions, and whether the client has to log in."""
    try:
        served = port_protocol.served(data)
    except ValueError as failure:
        return [_odd(port, failure)], None
    findings = [judge_versions(str(port), served)]
    if not _may_go_on(findings):
        return findings, None
    offered = (
        await _mechanisms(port, client) if port_protocol.SASL_HANDSHAKE_KEY in served else None
    )
    findings += judge_login(str(port), offered, client.means, protocol=client.protocol)
    if not asks_for_login(offered) and client.means.mechanism is None:
        return findings, served
    return findings, served if client.means.works and _may_go_on(findings) else None


async def _mechanisms(port: Port, client: Client) -> Mechanisms | None:
    context = None if client.trust is None else client.trust.lenient
    request = port_protocol.handshake_request(client.means.mechanism or "")
    try:
        heard = await exchange(port, request, is_framed=True, secured_by=context)
    except OSError:  # it closes the connection: it does not know of logins
        return None
    return port_protocol.mechanisms(heard.data)


def _lost(port: Port, failure: OSError) -> Finding:
    return error(
        "protocol",
        "closes",
        str(port),
        f"ends the connection: {failure}",
        "look at the log of what listens there",
    )


def _odd(port: Port, failure: ValueError) -> Finding:
    return error(
        "versions",
        "not-understood",
        str(port),
        f"answers Kafka's first request otherwise than a broker: {failure}",
        "look what listens there: a proxy may change what it passes on",
    )


def _unread(trust: Trust) -> Finding:
    return note(
        "tls",
        "truststore-unread",
        trust.source,
        f"{trust.unread}; so who vouches for the certificate is not checked",
        "let ssl.truststore.location be a file of type PEM, PKCS12 or JKS, and "
        "ssl.truststore.password its password",
    )
