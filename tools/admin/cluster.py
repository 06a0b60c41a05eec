"""`kavka cluster`: as Apache Kafka's kafka-cluster, option by option."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from kavka.tools.admin.cluster_client import ClusterClient, check_answer
from kavka.tools.admin.command import Tool
from kavka.tools.admin.errors import Misused
from kavka.tools.admin.java_order import number_order
from kavka.tools.admin.options import (
    BROKERS,
    CLIENT_CONFIG,
    CONTROLLERS,
    Given,
    Option,
    SubCommand,
)
from kavka.tools.admin.printing import print_csv
from kavka.wire.api import Api
from kavka.wire.apis import describe_cluster
from kavka.wire.message import message

FENCED_SINCE: Final = 2
"""From this version on DescribeCluster can tell of fenced brokers (KIP-1073)."""

COLUMNS: Final = ("id", "host", "port", "rack", "state", "type")
NO_HOST: Final = 100
NO_RACK: Final = 10
"""Widths of columns that are empty."""

CONNECTION: Final = (
    BROKERS._replace(short="b"),
    CONTROLLERS._replace(short="C"),
    Option("config", "The same as --command-config, an older name.", "FILE"),
    CLIENT_CONFIG._replace(short="c"),
)
COMMANDS: Final = (
    SubCommand("cluster-id", "Print the cluster's id.", CONNECTION),
    SubCommand(
        "unregister",
        "Forget a broker that is gone for good (KRaft clusters only).",
        (
            *CONNECTION,
            Option("id", "The broker's id.", "ID", is_number=True, short="i", is_required=True),
        ),
        text_only=True,
    ),
    SubCommand(
        "list-endpoints",
        "Print the addresses of all brokers, or of all KRaft controllers.",
        (*CONNECTION, Option("include-fenced-brokers", "Print fenced brokers as well.")),
    ),
)


@message
class UnregisterBrokerRequest:
    broker_id: int


def _nothing(*_: object) -> None:
    """No broker of Kavka answers this API, so it has no answer with an error."""


UNREGISTER: Final = Api(
    64, "UnregisterBroker", versions=(0, 0), first_flexible=0, error_response=_nothing
)
"""Only KRaft keeps brokers registered that are gone: Kavka does not serve it."""


def check(given: Given) -> None:
    """Refuse what does not go together."""
    if not given.has(BROKERS.name) and not given.has(CONTROLLERS.name):
        raise Misused("one of the arguments --bootstrap-server --bootstrap-controller is required")
    if given.has(CONTROLLERS.name) and given.has("include-fenced-brokers"):
        raise Misused(
            "The option --include-fenced-brokers is only supported with --bootstrap-server option"
        )


async def run(cluster: ClusterClient, given: Given) -> int:
    """The chosen command. Failed."""
    assert given.command is not None
    if given.command.name == "cluster-id":
        return _cluster_id(cluster, given.text("output"))
    if given.command.name == "unregister":
        return await _unregister(cluster, given.number("id") or 0)
    return await _list_endpoints(cluster, given)


TOOL: Final = Tool(
    "cluster",
    "Print a cluster's id and the addresses of its brokers.",
    (),
    check,
    run,
    commands=COMMANDS,
    old_config="config",
)


def _cluster_id(cluster: ClusterClient, form: str | None) -> int:
    if form == "json":
        print(json.dumps({"clusterId": cluster.cluster_id}))
    elif form == "csv":
        print_csv(["clusterId"], [[cluster.cluster_id]])
    elif cluster.cluster_id:
        print(f"Cluster ID: {cluster.cluster_id}")
    else:
        print("No cluster ID found. The Kafka version is probably too old.")
    return 0


async def _unregister(cluster: ClusterClient, broker_id: int) -> int:
    if not await cluster.serves(UNREGISTER):
        print("The target cluster does not support the broker unregistration API.")
        return 0
    response = await cluster.ask(UNREGISTER, UnregisterBrokerRequest(broker_id))
    check_answer(response.error_code, response.error_message)
    print(f"Broker {broker_id} is no longer registered.")
    return 0


async def _list_endpoints(cluster: ClusterClient, given: Given) -> int:
    kind = "controller" if cluster.of_controllers else "broker"
    rows = [
        {
            "id": broker.broker_id,
            "host": broker.host,
            "port": broker.port,
            "rack": broker.rack,
            "state": "fenced" if broker.is_fenced else "unfenced",
            "type": kind,
        }
        for broker in await _endpoints(cluster, with_fenced=given.has("include-fenced-brokers"))
    ]
    if given.text("output") == "json":
        print(json.dumps({"endpoints": rows}))
    elif given.text("output") == "csv":
        print_csv(COLUMNS, (row.values() for row in rows))
    else:
        _print_endpoints(rows, with_state=not cluster.of_controllers)
    return 0


async def _endpoints(cluster: ClusterClient, *, with_fenced: bool) -> Sequence[Any]:
    request = cluster.describing(with_fenced=with_fenced)
    response = await cluster.ask(describe_cluster.API, request)
    check_answer(response.error_code, response.error_message)
    by_id = {broker.broker_id: broker for broker in response.brokers}
    return [by_id[broker_id] for broker_id in number_order(by_id)]


def _print_endpoints(rows: Sequence[dict[str, Any]], *, with_state: bool) -> None:
    host = max((len(row["host"]) for row in rows), default=NO_HOST)
    rack = max((len(row["rack"]) for row in rows if row["rack"] is not None), default=NO_RACK)
    widths = {"id": 10, "host": host, "port": 10, "rack": rack, "state": 10, "type": 15}
    if not with_state:
        del widths["state"]
    titles = {name: name.upper() for name in widths} | {"type": "ENDPOINT_TYPE"}
    for row in (titles, *rows):
        shown = {name: "null" if row[name] is None else str(row[name]) for name in widths}
        print(" ".join(shown[name].ljust(width) for name, width in widths.items()))
