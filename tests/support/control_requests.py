"""Random requests of a controller, and the same as plain values for a codec's writer.

The values have what any version has: partitions both by topic and beside their topics. A writer
takes those of its version.
"""

from __future__ import annotations

import uuid
from typing import Any, Final

from hypothesis import strategies as st

from kavka.server.cluster.control_messages import (
    NO_TOPIC_ID,
    LeaderAndIsr,
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrTopicState,
    StopReplica,
    StopReplicaPartitionState,
    StopReplicaTopicState,
    UpdateMetadata,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataTopicState,
)

INT32: Final = st.integers(-(2**31), 2**31 - 1)
INT64: Final = st.integers(-(2**63), 2**63 - 1)
NAME: Final = st.text(max_size=10)
TOPIC_ID: Final = st.integers(1, 2**128 - 1).map(lambda number: uuid.UUID(int=number))
BROKERS: Final = st.lists(INT32, max_size=3).map(tuple)
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def _few(elements: st.SearchStrategy[Any], *, key: Any = None, least: int = 0) -> Any:
    unique = st.lists(elements, min_size=least, max_size=3, unique_by=key or repr)
    return unique.map(tuple)


def _index(state: Any) -> Any:
    return state.partition_index


TOPIC_KEYS: Final = (lambda topic: topic.topic_name, lambda topic: topic.topic_id)

LEADER_AND_ISR: Final = st.builds(
    LeaderAndIsr,
    INT32,
    INT32,
    INT64,
    _few(
        st.builds(
            LeaderAndIsrTopicState,
            NAME,
            TOPIC_ID,
            _few(
                st.builds(
                    LeaderAndIsrPartitionState,
                    *(INT32, INT32, INT32, INT32, BROKERS, INT32, BROKERS, BROKERS, BROKERS),
                    st.booleans(),
                    st.sampled_from((0, 1)),
                ),
                key=_index,
                least=1,
            ),
        ),
        key=TOPIC_KEYS,
    ),
    _few(st.builds(LeaderAndIsrLiveLeader, INT32, NAME, INT32)),
)

UPDATE_METADATA: Final = st.builds(
    UpdateMetadata,
    INT32,
    INT32,
    INT64,
    _few(
        st.builds(
            UpdateMetadataTopicState,
            NAME,
            TOPIC_ID,
            _few(
                st.builds(
                    UpdateMetadataPartitionState,
                    *(INT32, INT32, INT32, INT32, BROKERS, INT32, BROKERS, BROKERS),
                ),
                key=_index,
                least=1,
            ),
        ),
        key=TOPIC_KEYS,
    ),
    _few(
        st.builds(
            UpdateMetadataBroker,
            INT32,
            _few(
                st.builds(UpdateMetadataEndpoint, INT32, NAME, NAME, st.sampled_from(PROTOCOLS)),
                least=1,
            ),
            st.none() | NAME,
        )
    ),
)

STOP_REPLICA: Final = st.builds(
    StopReplica,
    INT32,
    INT32,
    INT64,
    _few(
        st.builds(
            StopReplicaTopicState,
            NAME,
            _few(
                st.builds(StopReplicaPartitionState, INT32, INT32, st.booleans()),
                key=_index,
                least=1,
            ),
            st.just(NO_TOPIC_ID),
        ),
        key=TOPIC_KEYS[0],
    ),
)


# -- as values ---------------------------------------------------------------------------------


def values_of_leader_and_isr(decision: LeaderAndIsr) -> dict[str, Any]:
    return _plain(decision) | {"ungrouped_partition_states": _ungrouped(decision)}


def values_of_update_metadata(update: UpdateMetadata) -> dict[str, Any]:
    values = _plain(update) | {"ungrouped_partition_states": _ungrouped(update)}
    for broker in values["live_brokers"]:
        for endpoint in broker["endpoints"]:
            endpoint["security_protocol"] = PROTOCOLS.index(endpoint["security_protocol"])
        first = broker["endpoints"][0]
        broker |= {"v0_host": first["host"], "v0_port": first["port"]}
    return values


def values_of_stop_replica(stop: StopReplica, *, delete: bool) -> dict[str, Any]:
    """`delete` is for versions that say it once."""
    topics = [
        {
            "name": topic.topic_name,
            "partition_indexes": [
                partition.partition_index for partition in topic.partition_states
            ],
        }
        for topic in stop.topic_states
    ]
    ungrouped = {"ungrouped_partitions": _ungrouped(stop), "topics": topics}
    return _plain(stop) | ungrouped | {"delete_partitions": delete}


def _ungrouped(request: Any) -> list[dict[str, Any]]:
    return [
        _plain(state) | {"topic_name": topic.topic_name}
        for topic in request.topic_states
        for state in topic.partition_states
    ]


def _plain(message: Any) -> dict[str, Any]:
    return {name: _plain_value(value) for name, value in message._asdict().items()}


def _plain_value(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return _plain(value)
    return [_plain_value(item) for item in value] if isinstance(value, tuple) else value
