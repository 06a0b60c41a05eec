"""Records of __remote_log_metadata (KIP-405), as Apache Kafka's classes for them print themselves.

A broker with tiered storage writes them; Kavka has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kavka.tools.dump_log.frames import read_frame
from kavka.tools.dump_log.java_values import boolean
from kavka.tools.dump_log.messages import Malformed

SEGMENT_STATES: Final = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
PARTITION_STATES: Final = (
    "DELETE_PARTITION_MARKED",
    "DELETE_PARTITION_STARTED",
    "DELETE_PARTITION_FINISHED",
)
NO_VALUE: Final = (
    'Cannot invoke "java.nio.ByteBuffer.remaining()" because the return value of '
    '"org.apache.kafka.common.record.internal.Record.value()" is null'
)
"""What Java says of a tombstone, which Apache Kafka's tool does not expect in this topic."""

Content = Mapping[str, Any]


def in_words(value: bytes | None) -> str:
    """The value of a record. Malformed, in Apache Kafka's words."""
    if value is None:
        raise Malformed(NO_VALUE)
    framed = read_frame("remote", value)
    return _IN_WORDS[framed.schema["name"]](framed.content)


def _segment(content: Content) -> str:
    start, end = content["startOffset"], content["endOffset"]
    if start < 0:
        raise Malformed(
            f"Unexpected start offset = {start}. StartOffset for a remote segment cannot be "
            "negative"
        )
    if end < start:
        raise Malformed(
            f"Unexpected end offset = {end}. EndOffset for a remote segment cannot be less than "
            f"startOffset = {start}"
        )
    fields = {
        "remoteLogSegmentId": _segment_id(content["remoteLogSegmentId"]),
        "startOffset": start,
        "endOffset": end,
        "brokerId": content["brokerId"],
        "maxTimestampMs": content["maxTimestampMs"],
        "eventTimestampMs": content["eventTimestampMs"],
        "segmentLeaderEpochs": _epochs(content),
        "segmentSizeInBytes": content["segmentSizeInBytes"],
        "customMetadata": _custom(content),
        "state": _segment_state(content),
        "txnIdxEmpty": _is_txn_index_empty(content),
    }
    return _object("RemoteLogSegmentMetadata", fields)


def _update(content: Content) -> str:
    fields = {
        "remoteLogSegmentId": _segment_id(content["remoteLogSegmentId"]),
        "customMetadata": _custom(content),
        "state": _segment_state(content),
        "eventTimestampMs": content["eventTimestampMs"],
        "brokerId": content["brokerId"],
    }
    return _object("RemoteLogSegmentMetadataUpdate", fields)


def _deletion(content: Content) -> str:
    fields = {
        "topicPartition": _partition(content["topicIdPartition"]),
        "state": _state(PARTITION_STATES, content["remotePartitionDeleteState"], "null"),
        "eventTimestampMs": content["eventTimestampMs"],
        "brokerId": content["brokerId"],
    }
    return _object("RemotePartitionDeleteMetadata", fields)


def _snapshot(content: Content) -> str:
    state = _segment_state(content)  # checked first
    fields = {
        "segmentId": content["segmentId"],
        "startOffset": content["startOffset"],
        "endOffset": content["endOffset"],
        "maxTimestampMs": content["maxTimestampMs"],
        "segmentLeaderEpochs": _epochs(content),
        "segmentSizeInBytes": content["segmentSizeInBytes"],
        "customMetadata": _custom(content),
        "state": state,
        "txnIdxEmpty": _is_txn_index_empty(content),
    }
    return _object("RemoteLogSegmentMetadataSnapshot", fields)


_IN_WORDS: Final[Mapping[str, Callable[[Content], str]]] = {
    "RemoteLogSegmentMetadataRecord": _segment,
    "RemoteLogSegmentMetadataUpdateRecord": _update,
    "RemotePartitionDeleteMetadataRecord": _deletion,
    "RemoteLogSegmentMetadataSnapshotRecord": _snapshot,
}


# --- parts of them


def _object(name: str, fields: Mapping[str, object]) -> str:
    return f"{name}{{{', '.join(f'{field}={value}' for field, value in fields.items())}}}"


def _segment_id(content: Content) -> str:
    fields = {
        "topicIdPartition": _partition(content["topicIdPartition"]),
        "id": content["id"],
    }
    return _object("RemoteLogSegmentId", fields)


def _partition(content: Content) -> str:
    return f"{content['id']}:{content['name']}-{content['partition']}"


def _epochs(content: Content) -> str:
    found = {entry["leaderEpoch"]: entry["offset"] for entry in content["segmentLeaderEpochs"]}
    if not found:
        raise Malformed("segmentLeaderEpochs can not be null or empty")
    return f"{{{', '.join(f'{epoch}={found[epoch]}' for epoch in sorted(found))}}}"


def _custom(content: Content) -> str:
    data: bytes | None = content["customMetadata"]
    return "Optional.empty" if data is None else f"Optional[CustomMetadata{{{len(data)} bytes}}]"


def _segment_state(content: Content) -> str:
    return _state(SEGMENT_STATES, content["remoteLogSegmentState"], "state can not be null")


def _state(names: tuple[str, ...], number: int, problem: str) -> str:
    if not 0 <= number < len(names):
        raise Malformed(problem)
    return names[number]


def _is_txn_index_empty(content: Content) -> str:
    """A tagged field, which is there where it is true."""
    return boolean(content.get("txnIndexEmpty", False))
