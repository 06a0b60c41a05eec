"""The whole way: to the first broker, from there to the others, and then through the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kavka import __version__
from kavka.client.broker_client import ClientSettings, Seams
from kavka.client.errors import NotLetIn
from kavka.tools.doctor import port_protocol
from kavka.tools.doctor.advertised import judge_way
from kavka.tools.doctor.approach import Arrived, Client, approach
from kavka.tools.doctor.asks_ports import Port
from kavka.tools.doctor.asks_ways import Gone, Start, go_to_all
from kavka.tools.doctor.certificates import judge_certificate
from kavka.tools.doctor.cluster import Cluster, Unanswered
from kavka.tools.doctor.findings import Finding, Level, error
from kavka.tools.doctor.logins import judge_refusal
from kavka.tools.doctor.rounds import Wishes, rounds
from kavka.tools.doctor.versions import Served, judge_differences

Tell = Callable[[Iterable[Finding]], None]

REQUEST_TIMES: Final = 3
"""How much longer a request may take than a connection."""


@dataclass(frozen=True)
class Examination:
    """Where an examination begins, and how."""

    addresses: Sequence[tuple[str, int]]
    client: Client
    config: Mapping[str, str]
    within_s: float
    wishes: Wishes


async def examine(examination: Examination, seams: Seams, tell: Tell) -> None:
    """Tell what is found at each step. `seams`: with TLS, if the client speaks it."""
    arrived = [
        await approach(Port(*address, examination.within_s), examination.client, seams.clock)
        for address in examination.addresses
    ]
    goes_on = any(arrival.served is not None for arrival in arrived)
    for arrival in arrived:
        tell(_milder(arrival) if goes_on and arrival.served is None else arrival.findings)
    for arrival in arrived:
        if arrival.served is not None:
            await _from(arrival, arrival.served, examination, seams, tell)
            return


def _milder(arrived: Arrived) -> list[Finding]:
    """A client needs one of its bootstrap addresses only."""
    return [
        finding._replace(level=Level.WARNING) if finding.level is Level.ERROR else finding
        for finding in arrived.findings
    ]


async def _from(
    arrived: Arrived, served: Served, examination: Examination, seams: Seams, tell: Tell
) -> None:
    within_s = examination.within_s
    settings = ClientSettings(
        client_id=examination.config.get("client.id", port_protocol.CLIENT_ID.decode()),
        software_version=__version__,
        request_timeout_s=within_s * REQUEST_TIMES,
        connect_timeout_s=within_s,
        login=examination.client.login,
    )
    port = arrived.port
    client = examination.client
    needs_names = client.trust is not None or client.login is not None
    cluster = Cluster(port, settings, seams, needs_names=needs_names)
    try:
        try:
            await cluster.open()
        except Unanswered as failure:
            tell([_no_metadata(port, failure)])
            return
        if not cluster.metadata.brokers:
            tell([_no_brokers(port)])
            return
        start = Start(port, arrived.resolved.addresses, examination.client.trust)
        gone = await go_to_all(cluster, start)
        tell(judge_way(visit.way, cluster.metadata.cluster_id) for visit in gone)
        tell(_certificates(gone, examination, port, seams))
        tell(_differences(gone))
        await rounds(cluster, served, examination.config, examination.wishes, tell)
    finally:
        cluster.close()


def _certificates(
    gone: Sequence[Gone], examination: Examination, first: Port, seams: Seams
) -> list[Finding]:
    """What is wrong with those of advertised addresses."""
    trust = examination.client.trust
    return [
        found
        for visit in gone
        if visit.secured is not None and trust is not None
        if (visit.way.host, visit.way.port) != (first.host, first.port)
        for found in judge_certificate(
            f"broker {visit.way.broker_id} at {visit.way.host}:{visit.way.port}",
            visit.secured,
            seams.clock.now_ms() / 1000,
            checks_name=examination.client.checks_name,
            trust=trust.source,
        )
    ]


def _differences(gone: Sequence[Gone]) -> list[Finding]:
    return judge_differences(
        {
            f"broker {visit.way.broker_id}": port_protocol.served(visit.served.data)
            for visit in gone
            if visit.way.works and visit.served is not None
        }
    )


def _no_metadata(port: Port, failure: Unanswered) -> Finding:
    if isinstance(failure.__cause__, NotLetIn):
        return judge_refusal(str(port), str(failure))
    return error(
        "advertised",
        "no-metadata",
        str(port),
        f"answers ApiVersions, but not Metadata: {failure}",
        "look at the broker's log: it may still be starting, or refuse clients without a login",
    )


def _no_brokers(port: Port) -> Finding:
    return error(
        "advertised",
        "no-brokers",
        str(port),
        "knows of no broker, not even itself",
        "it is still starting, or has lost its session with ZooKeeper or the KRaft controllers: "
        "look at its log",
    )
