"""Error codes are found where Apache Kafka's answers have them (`errorCounts` of its responses)."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.server.connections.dispatch import HANDLERS
from kavka.wire.api import Api
from kavka.wire.apis import api_versions, fetch, metadata, produce
from kavka.wire.error_counts import error_counter, error_paths
from kavka.wire.errors import ErrorCode

PLACES: dict[str, list[tuple[str, ...]]] = {  # of Apache Kafka 3.9's response classes
    "ApiVersions": [()],
    "CreateTopics": [("topics",)],
    "DeleteTopics": [("responses",)],
    "DescribeConfigs": [("results",)],
    "Fetch": [(), ("responses", "partitions")],
    "InitProducerId": [()],
    "ListOffsets": [("topics", "partitions")],
    "Metadata": [("topics",), ("topics", "partitions"), ()],
    "OffsetForLeaderEpoch": [("topics", "partitions")],
    "Produce": [("responses", "partition_responses")],
}


@pytest.mark.parametrize("name", PLACES)
def test_the_places_of_codes(name: str) -> None:
    (api,) = [api for api, _ in HANDLERS.values() if api.name == name]
    assert sorted(error_paths(api)) == sorted(PLACES[name])


def counted(api: Api, response: Any) -> dict[int, int]:
    counts: Counter[int] = Counter()
    error_counter(api, counts)(response)
    return dict(counts)


def test_each_partition_counts_once() -> None:
    partitions = [produce.PartitionResponse(index, code) for index, code in enumerate([0, 3, 0])]
    topics = [
        produce.TopicResponse("a", None, partitions),
        produce.TopicResponse(
            "b", None, [produce.PartitionResponse(0, ErrorCode.UNKNOWN_TOPIC_ID)]
        ),
        produce.TopicResponse("c", None, []),
    ]
    assert counted(produce.API, produce.ProduceResponse(topics)) == {0: 2, 3: 1, 100: 1}


def test_the_top_and_the_partitions_of_a_fetch() -> None:
    topic = fetch.TopicResponse("a", None, [fetch.PartitionResponse(0, 1)])
    assert counted(fetch.API, fetch.FetchResponse([topic], 0)) == {0: 1, 1: 1}
    assert counted(fetch.API, fetch.FetchResponse((), 70)) == {70: 1}


def test_lists_that_are_null_hold_none() -> None:
    nothing = SimpleNamespace(topics=None, error_code=0)
    assert counted(metadata.API, nothing) == {0: 1}


def test_one_place_alone() -> None:
    response = api_versions.API.error_response(None, ErrorCode.UNSUPPORTED_VERSION, 0)
    assert counted(api_versions.API, response) == {35: 1}


def test_every_served_api_has_a_place_for_a_code() -> None:
    without = [api.name for api, _ in HANDLERS.values() if not error_paths(api)]
    assert without == []
