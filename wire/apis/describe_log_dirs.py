"""DescribeLogDirs (key 35): sizes of log directories and of the partitions in them (KIP-113).

Versions 0 to 5; 1 is like 0, 2 is flexible, 3 has an error code at the top, 4 adds the size of
the volume (KIP-827), 5 whether the directory is cordoned (KIP-1066).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.admin.cluster import DescribeLogDirsRequest

UNKNOWN_BYTES: Final = -1
UNKNOWN_LAG: Final = -1


@message
class PartitionResponse:
    """One log. `partition_size` is in bytes; `offset_lag` counts records that it is behind the
    partition, `UNKNOWN_LAG` if unknown.
    """

    partition_index: int
    partition_size: int
    offset_lag: int = UNKNOWN_LAG
    is_future_key: bool = False


@message
class TopicResponse:
    name: str
    partitions: Sequence[PartitionResponse] = ()


@message
class DirectoryResponse:
    """One log directory by its absolute path; total and usable bytes are its volume's."""

    error_code: int
    log_dir: str
    topics: Sequence[TopicResponse] = ()
    total_bytes: int = UNKNOWN_BYTES
    usable_bytes: int = UNKNOWN_BYTES
    is_cordoned: bool = False


@message
class DescribeLogDirsResponse:
    results: Sequence[DirectoryResponse] = ()
    error_code: int = 0
    throttle_time_ms: int = 0


def error_response(
    request: DescribeLogDirsRequest, code: ErrorCode, version: int
) -> DescribeLogDirsResponse:
    """`code` as the top-level error code; before version 3 there is no place for one."""
    return DescribeLogDirsResponse(error_code=code)


API: Final = Api(
    35,
    "DescribeLogDirs",
    versions=(0, 5),
    first_flexible=2,
    error_response=error_response,
)
