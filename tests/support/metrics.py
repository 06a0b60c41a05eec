"""A page of metrics as prometheus-client's own parser reads it."""

from __future__ import annotations

from collections.abc import Mapping
from http.client import HTTPConnection

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from kavka.compat_tests.raw.codec import batches
from kavka.server.monitoring.loop_lag import LoopLag
from kavka.server.monitoring.metrics.view import Sources
from support.http import HttpClient
from support.memory_broker import MemoryBroker
from support.ports import HOST

PORT = 9404
ON = f"kavka.http.listener=127.0.0.1:{PORT}"
"""The setting that lets a broker serve the page."""


class Scrape:
    """One page."""

    def __init__(self, text: str) -> None:
        self.families: dict[str, Metric] = {}
        self._values: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        for family in text_string_to_metric_families(text):
            assert family.name not in self.families, f"{family.name} has two heads"
            self.families[family.name] = family
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                assert key not in self._values, f"{key} stands there twice"
                self._values[key] = sample.value

    def __getitem__(self, name: str) -> float:
        """The value without labels; KeyError if there is none."""
        return self._values[name, ()]

    def of(self, name: str, **labels: str) -> float:
        """The value with these labels and no others; KeyError if there is none."""
        return self._values[name, tuple(sorted(labels.items()))]

    def all(self, name: str) -> Mapping[tuple[str, ...], float]:
        """The values of a name, by those of its labels, the labels in the order of their names."""
        return {
            tuple(value for _, value in labels): number
            for (found, labels), number in self._values.items()
            if found == name
        }


def get(port: int, path: str) -> tuple[int, str]:
    """One page, over HTTP: its status and text."""
    connection = HTTPConnection(HOST, port, timeout=30)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def scrape(port: int) -> Scrape:
    """The page of a broker that serves it there."""
    status, text = get(port, "/metrics")
    assert status == 200, text
    return Scrape(text)


async def look(broker: MemoryBroker) -> Scrape:
    """Ask a broker on the network in memory that has the setting `ON`."""
    answer = await broker.network.client_as(HttpClient, PORT).get("/metrics")
    assert answer.status == 200, answer
    return Scrape(answer.body.decode())


def records(count: int) -> bytearray:
    """A batch."""
    return batches.build([batches.Written(None, b"x")] * count)


def sources(broker: MemoryBroker) -> Sources:
    """Where the page of a broker in memory comes from."""
    return Sources(
        broker.parts,
        broker.connections,
        LoopLag(broker.clock, broker.tasks),
        lambda: broker.instance.state,
        lambda: None,
        0,
    )
