"""The frames of Fetch requests and responses for one partition, for the fast path: where fields
stand that vary from one to the next.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from kavka.wire import header
from kavka.wire.apis.fetch import (
    API,
    FETCHED_EPOCHS_SINCE,
    LEADER_EPOCHS_SINCE,
    LOG_STARTS_SINCE,
    REPLICA_STATES_SINCE,
    SESSIONS_SINCE,
    TOPIC_IDS_SINCE,
    FetchResponse,
    PartitionResponse,
    TopicResponse,
)
from kavka.wire.codec.frames import encode_response
from kavka.wire.fields import int32, uvarint

_OFFSETS: Final = (0x0101010101010101, 0x0202020202020202, 0x0303030303030303)
"""High watermark, last stable offset and log start offset in the response that is filled in."""

_RECORDS: Final = b"records"

_pack_frame_head: Final = struct.Struct(">ii").pack_into


class RequestLayout:
    """Where the frame of a request for one partition says how far its reader has got."""

    __slots__ = ("_progress", "_version", "epoch_at", "progress_at", "progress_end")

    def __init__(self, version: int, topic: Any, frame: memoryview) -> None:
        """`topic`: of the decoded request."""
        self._version = version
        is_flexible = API.is_flexible(version)
        _, _, _, id_length = header.read_fixed(frame)
        _, position = header.read_client_id(frame, id_length)
        if is_flexible:
            position = header.skip_tags(frame, position)
        # replica, in versions that have it here, wait, limits, isolation
        position += 13 if version >= REPLICA_STATES_SINCE else 17
        self.epoch_at = position + 4
        """Position of the session epoch, in versions that have it."""
        if version >= SESSIONS_SINCE:
            position += 8
        count_bytes = 1 if is_flexible else 4
        position += count_bytes + _bytes_of_name(topic, version) + count_bytes + 4  # its index
        fields = "i" if version >= LEADER_EPOCHS_SINCE else ""
        fields += "qi" if version >= FETCHED_EPOCHS_SINCE else "q"
        fields += "q" if version >= LOG_STARTS_SINCE else ""
        self._progress = struct.Struct(">" + fields)
        self.progress_at = position
        """Where the fields of `read` begin."""
        self.progress_end = position + self._progress.size

    def read(self, frame: memoryview) -> tuple[int, int, int, int]:
        """(leader epoch that the reader knows, its offset, the leader epoch of its last record, the
        start offset of its own log); -1 for what the version does not have."""
        found = self._progress.unpack_from(frame, self.progress_at)
        if self._version >= FETCHED_EPOCHS_SINCE:
            return found
        if self._version >= LEADER_EPOCHS_SINCE:
            return found[0], found[1], -1, found[2]
        return -1, found[0], -1, found[1] if len(found) > 1 else -1


def _bytes_of_name(topic: Any, version: int) -> int:
    """The size of the field that names the topic."""
    if version >= TOPIC_IDS_SINCE:
        return 16
    size = len(topic.topic.encode())
    return size + len(uvarint(size + 1)) if API.is_flexible(version) else size + 2


class ResponseFrame:
    """The frame of a response that has records of one partition, and nothing else to report."""

    __slots__ = ("_fill_offsets", "_head", "_is_flexible", "_offset_count", "_offsets_at", "_tail")

    def __init__(
        self, version: int, topic: Any, index: int, session_id: int, *, committed_only: bool
    ) -> None:
        partition = PartitionResponse(index, 0, *_OFFSETS, _RECORDS, () if committed_only else None)
        topics = [TopicResponse(topic.topic, topic.topic_id, [partition])]
        response = FetchResponse(topics, 0, session_id)
        frame = b"".join(encode_response(API, version, 0, response))
        self._is_flexible = API.is_flexible(version)
        records_at = frame.rindex(_RECORDS)  # nothing that varies comes after them
        self._head = frame[: records_at - (1 if self._is_flexible else 4)]
        self._tail = frame[records_at + len(_RECORDS) :]
        self._offset_count = count = 3 if version >= LOG_STARTS_SINCE else 2
        offsets = struct.Struct(f">{count}q")
        self._offsets_at = frame.index(offsets.pack(*_OFFSETS[:count]))
        self._fill_offsets = offsets.pack_into

    def filled(
        self, correlation_id: int, offsets: tuple[int, int, int], size: int
    ) -> tuple[bytearray, memoryview]:
        """A frame, and the view of it into which so many bytes of records have to be read."""
        head, tail = self._head, self._tail
        length = uvarint(size + 1) if self._is_flexible else int32(size)
        begin = len(head) + len(length)
        frame = bytearray(begin + size + len(tail))
        frame[:begin] = head + length
        frame[begin + size :] = tail
        _pack_frame_head(frame, 0, len(frame) - 4, correlation_id)
        self._fill_offsets(frame, self._offsets_at, *offsets[: self._offset_count])
        return frame, memoryview(frame)[begin : begin + size]
