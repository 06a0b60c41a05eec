"""ElectLeaders (key 43): let preferred replicas lead, or any replica where none leads.

Versions 0 to 2; 1 adds the kind of election and the error of the whole request (KIP-460), 2 is
flexible. Null partitions: all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.admin.cluster import ElectLeadersRequest

PREFERRED: Final = 0
UNCLEAN: Final = 1


@message
class PartitionResponse:
    partition_id: int
    error_code: int = 0
    error_message: str | None = None


@message
class TopicResponse:
    topic: str
    partition_result: Sequence[PartitionResponse]


@message
class ElectLeadersResponse:
    replica_election_results: Sequence[TopicResponse]
    error_code: int = 0
    throttle_time_ms: int = 0


def error_response(
    request: ElectLeadersRequest, code: ErrorCode, version: int, message: str | None = None
) -> ElectLeadersResponse:
    """`code` as the top-level error code and for every partition in the request, there with
    `message`."""
    return ElectLeadersResponse(
        [
            TopicResponse(
                topic.topic, [PartitionResponse(index, code, message) for index in topic.partitions]
            )
            for topic in request.topic_partitions or ()
        ],
        code,
    )


API: Final = Api(
    43,
    "ElectLeaders",
    versions=(0, 2),
    first_flexible=2,
    error_response=error_response,
)
