"""Requests by API. Read from a broker to which a known traffic was sent."""

from __future__ import annotations

from support.memory_broker import MemoryBroker, scenario
from support.metrics import ON, look, records

REQUESTS = "kafka_network_requestmetrics_"


@scenario(ON, topics={"t": 1})
async def test_requests(broker: MemoryBroker) -> None:
    for _ in range(5):
        await broker.produce(records(1), version=9)
    await broker.produce(records(1), version=7)
    await broker.produce(records(1), topic="t", partition=7, version=7)
    await broker.fetch(0)
    found = await look(broker)
    counts = found.all(f"{REQUESTS}requests_total")
    assert counts["Produce", "9"] == 5
    assert counts["Produce", "7"] == 2
    assert counts["Fetch", "12"] == counts["FetchConsumer", "12"] == 1
    assert counts["CreateTopics", "7"] == 1
    assert {name for name, _ in counts} == {"Produce", "Fetch", "FetchConsumer", "CreateTopics"}
    errors = found.all(f"{REQUESTS}errors_total")
    assert errors["NONE", "Produce"] == 6
    assert errors["UNKNOWN_TOPIC_OR_PARTITION", "Produce"] == 1
    assert errors["NONE", "Fetch"] == 2, "the top and the partition"
    for name in (
        *("totaltimems", "requestqueuetimems", "localtimems", "remotetimems"),
        *("responsequeuetimems", "responsesendtimems", "throttletimems", "requestbytes"),
    ):
        assert found.of(f"{REQUESTS}{name}_count", request="Produce") == 7, name
        assert len([key for key in found.all(f"{REQUESTS}{name}") if key[1] == "Produce"]) == 6
    assert found.of(f"{REQUESTS}requestbytes_sum", request="CreateTopics") > 30
