"""Every API that is known by name, with all versions whose schema is at hand: for tools that read
what passes between others. What Kavka serves is `kavka.wire.apis`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, NamedTuple, NoReturn

from kavka.wire.api import Api
from kavka.wire.apis import api_versions, controlled_shutdown
from kavka.wire.codec import private_copy
from kavka.wire.errors import ErrorCode


class KnownApi(NamedTuple):
    """`highest` is below `lowest` where the clients have dropped it."""

    name: str
    lowest: int
    highest: int
    is_asked_of_brokers: bool = True
    """Whether a broker should have it: the others are for KRaft controllers, or dropped."""


KNOWN: Final = {
    0: KnownApi("Produce", 3, 13),
    1: KnownApi("Fetch", 4, 18),
    2: KnownApi("ListOffsets", 1, 11),
    3: KnownApi("Metadata", 0, 13),
    4: KnownApi("LeaderAndIsr", 0, -1, False),
    5: KnownApi("StopReplica", 0, -1, False),
    6: KnownApi("UpdateMetadata", 0, -1, False),
    7: KnownApi("ControlledShutdown", 0, -1, False),
    8: KnownApi("OffsetCommit", 2, 10),
    9: KnownApi("OffsetFetch", 1, 10),
    10: KnownApi("FindCoordinator", 0, 6),
    11: KnownApi("JoinGroup", 0, 9),
    12: KnownApi("Heartbeat", 0, 4),
    13: KnownApi("LeaveGroup", 0, 5),
    14: KnownApi("SyncGroup", 0, 5),
    15: KnownApi("DescribeGroups", 0, 6),
    16: KnownApi("ListGroups", 0, 5),
    17: KnownApi("SaslHandshake", 0, 1),
    18: KnownApi("ApiVersions", 0, 4),
    19: KnownApi("CreateTopics", 2, 7),
    20: KnownApi("DeleteTopics", 1, 6),
    21: KnownApi("DeleteRecords", 0, 2),
    22: KnownApi("InitProducerId", 0, 6),
    23: KnownApi("OffsetForLeaderEpoch", 2, 4),
    24: KnownApi("AddPartitionsToTxn", 0, 5),
    25: KnownApi("AddOffsetsToTxn", 0, 4),
    26: KnownApi("EndTxn", 0, 5),
    27: KnownApi("WriteTxnMarkers", 1, 2),
    28: KnownApi("TxnOffsetCommit", 0, 5),
    29: KnownApi("DescribeAcls", 1, 3),
    30: KnownApi("CreateAcls", 1, 3),
    31: KnownApi("DeleteAcls", 1, 3),
    32: KnownApi("DescribeConfigs", 1, 4),
    33: KnownApi("AlterConfigs", 0, 2),
    34: KnownApi("AlterReplicaLogDirs", 1, 2),
    35: KnownApi("DescribeLogDirs", 1, 5),
    36: KnownApi("SaslAuthenticate", 0, 2),
    37: KnownApi("CreatePartitions", 0, 3),
    38: KnownApi("CreateDelegationToken", 1, 3),
    39: KnownApi("RenewDelegationToken", 1, 2),
    40: KnownApi("ExpireDelegationToken", 1, 2),
    41: KnownApi("DescribeDelegationToken", 1, 3),
    42: KnownApi("DeleteGroups", 0, 2),
    43: KnownApi("ElectLeaders", 0, 2),
    44: KnownApi("IncrementalAlterConfigs", 0, 1),
    45: KnownApi("AlterPartitionReassignments", 0, 1),
    46: KnownApi("ListPartitionReassignments", 0, 0),
    47: KnownApi("OffsetDelete", 0, 0),
    48: KnownApi("DescribeClientQuotas", 0, 1),
    49: KnownApi("AlterClientQuotas", 0, 1),
    50: KnownApi("DescribeUserScramCredentials", 0, 0),
    51: KnownApi("AlterUserScramCredentials", 0, 0),
    52: KnownApi("Vote", 0, 2, False),
    53: KnownApi("BeginQuorumEpoch", 0, 1, False),
    54: KnownApi("EndQuorumEpoch", 0, 1, False),
    55: KnownApi("DescribeQuorum", 0, 2),
    56: KnownApi("AlterPartition", 2, 3, False),
    57: KnownApi("UpdateFeatures", 0, 2),
    58: KnownApi("Envelope", 0, 0, False),
    59: KnownApi("FetchSnapshot", 0, 1, False),
    60: KnownApi("DescribeCluster", 0, 2),
    61: KnownApi("DescribeProducers", 0, 0),
    62: KnownApi("BrokerRegistration", 0, 4, False),
    63: KnownApi("BrokerHeartbeat", 0, 2, False),
    64: KnownApi("UnregisterBroker", 0, 0),
    65: KnownApi("DescribeTransactions", 0, 0),
    66: KnownApi("ListTransactions", 0, 2),
    67: KnownApi("AllocateProducerIds", 0, 0, False),
    68: KnownApi("ConsumerGroupHeartbeat", 0, 1),
    69: KnownApi("ConsumerGroupDescribe", 0, 1),
    70: KnownApi("ControllerRegistration", 0, 0, False),
    71: KnownApi("GetTelemetrySubscriptions", 0, 0),
    72: KnownApi("PushTelemetry", 0, 0),
    73: KnownApi("AssignReplicasToDirs", 0, 0, False),
    74: KnownApi("ListConfigResources", 0, 1),
    75: KnownApi("DescribeTopicPartitions", 0, 0),
    76: KnownApi("ShareGroupHeartbeat", 1, 1),
    77: KnownApi("ShareGroupDescribe", 1, 1),
    78: KnownApi("ShareFetch", 1, 2),
    79: KnownApi("ShareAcknowledge", 1, 2),
    80: KnownApi("AddRaftVoter", 0, 1),
    81: KnownApi("RemoveRaftVoter", 0, 0),
    82: KnownApi("UpdateRaftVoter", 0, 0, False),
    83: KnownApi("InitializeShareGroupState", 0, 0),
    84: KnownApi("ReadShareGroupState", 0, 0),
    85: KnownApi("WriteShareGroupState", 0, 1),
    86: KnownApi("DeleteShareGroupState", 0, 0),
    87: KnownApi("ReadShareGroupStateSummary", 0, 1),
    88: KnownApi("StreamsGroupHeartbeat", 0, 0),
    89: KnownApi("StreamsGroupDescribe", 0, 0),
    90: KnownApi("DescribeShareGroupOffsets", 0, 1),
    91: KnownApi("AlterShareGroupOffsets", 0, 0),
    92: KnownApi("DeleteShareGroupOffsets", 0, 0),
}
"""By key: what Apache Kafka 4.3.1's clients know. kafka-broker-api-versions compares it with what a
broker serves; a test compares it with Apache Kafka's message definitions."""

KEYS: Final = range(len(KNOWN))

_NEVER: Final = 1 << 15
"""More than any version."""


@cache
def known_api(key: int) -> Api | None:
    """The API with this key; None if there is none. `versions` are those of its schema."""
    if key not in KEYS:
        return None
    name = KNOWN[key].name
    made = private_copy.message_class(name + "Request")
    flexible = made._flexible_versions[0] if made._flexible_versions else -1
    is_shutdown = key == controlled_shutdown.API.key
    return Api(
        key,
        name,
        versions=(0, made.max_version),
        first_flexible=flexible if flexible >= 0 else _NEVER,
        error_response=_not_for_responding,
        flexible_response_header=key != api_versions.KEY,
        first_with_client_id=controlled_shutdown.API.first_with_client_id if is_shutdown else 0,
    )


def _not_for_responding(request: Any, code: ErrorCode, version: int) -> NoReturn:
    raise NotImplementedError("what is only read is not answered")
