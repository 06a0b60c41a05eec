"""DeleteGroups (key 42): delete empty groups, with their offsets (KIP-229).

Versions 0 to 2; 2 is flexible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.admin.groups import DeleteGroupsRequest


@message
class GroupResult:
    group_id: str
    error_code: int = 0


@message
class DeleteGroupsResponse:
    results: Sequence[GroupResult] = ()
    throttle_time_ms: int = 0


def error_response(
    request: DeleteGroupsRequest, code: ErrorCode, version: int
) -> DeleteGroupsResponse:
    """`code` for every group, each once."""
    return DeleteGroupsResponse(
        [GroupResult(group_id, code) for group_id in dict.fromkeys(request.groups_names)]
    )


API: Final = Api(
    42,
    "DeleteGroups",
    versions=(0, 2),
    first_flexible=2,
    error_response=error_response,
)
