"""The descriptor of an API."""

from __future__ import annotations

import pytest

from kavka.compat_tests.raw.codec import schemas
from kavka.wire import apis
from kavka.wire.api import Api
from kavka.wire.apis import api_versions, fetch, produce
from support.fresh import printed

SERVED = {
    "Produce": (0, 13),
    "Fetch": (0, 18),
    "ListOffsets": (0, 11),
    "Metadata": (0, 13),
    "OffsetCommit": (0, 10),
    "OffsetFetch": (0, 10),
    "FindCoordinator": (0, 6),
    "ApiVersions": (0, 4),
    "CreateTopics": (0, 7),
    "DeleteTopics": (0, 6),
    "DeleteRecords": (0, 2),
    "CreatePartitions": (0, 3),
    "ElectLeaders": (0, 2),
    "AlterPartitionReassignments": (0, 1),
    "ListPartitionReassignments": (0, 0),
    "JoinGroup": (0, 9),
    "SyncGroup": (0, 5),
    "Heartbeat": (0, 4),
    "LeaveGroup": (0, 5),
    "DescribeGroups": (0, 6),
    "ListGroups": (0, 5),
    "DeleteGroups": (0, 2),
    "OffsetDelete": (0, 0),
    "InitProducerId": (0, 5),
    "AddPartitionsToTxn": (0, 5),
    "AddOffsetsToTxn": (0, 4),
    "EndTxn": (0, 5),
    "WriteTxnMarkers": (0, 2),
    "TxnOffsetCommit": (0, 5),
    "OffsetForLeaderEpoch": (0, 4),
    "DescribeConfigs": (0, 4),
    "AlterConfigs": (0, 2),
    "IncrementalAlterConfigs": (0, 1),
    "ListConfigResources": (0, 1),
    "AlterReplicaLogDirs": (0, 2),
    "DescribeLogDirs": (0, 5),
    "DescribeProducers": (0, 0),
    "DescribeTransactions": (0, 0),
    "ListTransactions": (0, 2),
    "DescribeTopicPartitions": (0, 0),
    "DescribeCluster": (0, 2),
    "DescribeQuorum": (0, 2),
    "UpdateFeatures": (0, 2),
    "GetTelemetrySubscriptions": (0, 0),
    "PushTelemetry": (0, 0),
    "ConsumerGroupHeartbeat": (0, 1),
    "ConsumerGroupDescribe": (0, 1),
    "LeaderAndIsr": (0, 7),
    "StopReplica": (0, 4),
    "UpdateMetadata": (0, 8),
    "ControlledShutdown": (0, 3),
    "AlterPartition": (0, 3),
    "AllocateProducerIds": (0, 0),
}
"""From the lowest of Apache Kafka 3.9.2 (but for old formats) to the highest of 4.3.1, or of 3.9.2
where 4 has dropped the API."""


def test_what_is_advertised() -> None:
    found = {
        module.API.name: (module.API.lowest, module.API.highest)
        for module in schemas.api_modules().values()
    }
    assert found == SERVED


def test_keys_and_names_are_used_once() -> None:
    found = [module.API for module in schemas.api_modules().values()]
    assert len({api.key for api in found}) == len(found)
    for name, module in schemas.api_modules().items():
        assert module.API.name.lower() == name.replace("_", "")
        assert (module.__doc__ or "").startswith(f"{module.API.name} (key {module.API.key})")


def test_which_versions_are_served() -> None:
    assert produce.API.serves(0)
    assert produce.API.serves(13)
    assert not produce.API.serves(14)
    assert not fetch.API.serves(-1)


def test_readers_and_writers_are_made_once() -> None:
    assert fetch.API.decoder(12) is fetch.API.decoder(12)
    assert fetch.API.encoder(12) is fetch.API.encoder(12)
    assert fetch.API.decoder(12) is not fetch.API.decoder(13)


@pytest.mark.parametrize("api", [fetch.API, api_versions.API])
def test_its_repr_has_the_versions(api: Api) -> None:
    assert repr(api) == f"Api({api.key} {api.name} {api.lowest}-{api.highest})"


def test_modules_of_apis_import_no_client() -> None:
    program = "import sys\n" + "".join(
        f"import {apis.__name__}.{name}\n" for name in schemas.api_modules()
    )
    program += "assert not [n for n in sys.modules if n.startswith('kafka')]"
    printed(program)
