"""JoinGroup's answer, by version."""

from __future__ import annotations

import pytest

from kavka.wire.apis.join_group import API, JoinGroupResponse, error_response
from kavka.wire.errors import ErrorCode


@pytest.mark.parametrize("version", range(API.lowest, API.highest + 1))
def test_no_protocol_is_null_since_version_7(version: int) -> None:
    nothing = None if version >= 7 else ""
    assert JoinGroupResponse("m").for_version(version).protocol_name == nothing
    assert JoinGroupResponse("m", protocol_name="p").for_version(version).protocol_name == "p"
    refused = error_response(None, ErrorCode.NOT_COORDINATOR, version)
    assert (refused.error_code, refused.protocol_name) == (ErrorCode.NOT_COORDINATOR, nothing)
