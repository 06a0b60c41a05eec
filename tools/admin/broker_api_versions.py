"""`kavka broker-api-versions`: as Apache Kafka's kafka-broker-api-versions, option by option."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final, NamedTuple

from kavka import __version__
from kavka.client.versions import SOFTWARE_NAME
from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.command import Tool
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.java_order import node_order
from kavka.tools.admin.options import Given
from kavka.tools.admin.printing import print_csv
from kavka.wire.apis import api_versions
from kavka.wire.errors import ErrorCode
from kavka.wire.known_apis import KNOWN, KnownApi
from kavka.wire.message import message

COLUMNS: Final = ("broker", "api", "key", "lowest", "highest", "usable")


@message
class ApiVersionsRequest:
    client_software_name: str = SOFTWARE_NAME
    client_software_version: str = __version__


class Served(NamedTuple):
    """An API that a broker serves, or that it should: then without versions."""

    key: int
    lowest: int | None
    highest: int | None

    @property
    def known(self) -> KnownApi | None:
        return KNOWN.get(self.key)

    @property
    def name(self) -> str:
        return "UNKNOWN" if self.known is None else self.known.name

    @property
    def usable(self) -> int | None:
        """The highest version that Apache Kafka 4.3.1's clients know as well."""
        if self.known is None or self.lowest is None or self.highest is None:
            return None
        version = min(self.known.highest, self.highest)
        return version if version >= max(self.known.lowest, self.lowest) else None

    def __str__(self) -> str:
        if self.lowest is None or self.highest is None:
            return f"{self.name}({self.key}): UNSUPPORTED"
        span = f"{self.lowest} to {self.highest}"
        text = f"{self.name}({self.key}): {self.lowest if self.lowest == self.highest else span}"
        if self.known is None:
            return text
        if self.known.highest < self.lowest:
            return f"{text} [unusable: node too new]"
        if self.highest < self.known.lowest:
            return f"{text} [unusable: node too old]"
        return f"{text} [usable: {min(self.known.highest, self.highest)}]"


def check(given: Given) -> None:
    """Refuse what is not whole."""
    given.needs("bootstrap-server")


async def run(cluster: ClusterClient, given: Given) -> int:
    """Print which versions of each API each broker serves, and which of them can be used."""
    brokers = node_order(
        (broker.node_id, broker.host, broker.port, broker.rack) for broker in cluster.brokers
    )
    found = await asyncio.gather(*(_served(cluster, broker_id) for broker_id, *_ in brokers))
    form = given.text("output")
    if form == "json":
        shown = [
            {
                "id": broker_id,
                "host": host,
                "port": port,
                "rack": rack,
                "error": None if isinstance(served, list) else served,
                "apis": [_row(api) for api in served] if isinstance(served, list) else [],
            }
            for (broker_id, host, port, rack), served in zip(brokers, found, strict=True)
        ]
        print(json.dumps({"brokers": shown}))
    elif form == "csv":
        rows = [
            [broker_id, *_row(api).values()]
            for (broker_id, *_), served in zip(brokers, found, strict=True)
            if isinstance(served, list)
            for api in served
        ]
        print_csv(COLUMNS, rows)
    else:
        for (broker_id, host, port, rack), served in zip(brokers, found, strict=True):
            node = f"{host}:{port} (id: {broker_id} rack: {rack or 'null'} isFenced: false)"
            if isinstance(served, list):
                print(f"{node} -> (\n\t" + ",\n\t".join(map(str, served)) + "\n)")
            else:
                print(f"{node} -> ERROR: {served}")
    return 0


TOOL: Final = Tool(
    "broker-api-versions", "Print the versions of APIs that brokers serve.", (), check, run
)


async def _served(cluster: ClusterClient, broker_id: int) -> list[Served] | str:
    """What a broker serves, by key, with what it should; or why it does not say."""
    try:
        response = await cluster.ask_broker(broker_id, api_versions.API, ApiVersionsRequest())
    except Failed as failed:
        return str(failed)
    if response.error_code:
        return ErrorCode(response.error_code).name
    missing = {
        key: Served(key, None, None) for key, api in KNOWN.items() if api.is_asked_of_brokers
    }
    served = {
        api.api_key: Served(api.api_key, api.min_version, api.max_version)
        for api in response.api_keys
    }
    return [api for _, api in sorted({**missing, **served}.items())]


def _row(api: Served) -> dict[str, Any]:
    return {
        "api": api.name,
        "key": api.key,
        "lowest": api.lowest,
        "highest": api.highest,
        "usable": api.usable,
    }
