"""LeaveGroup: from the wire to the group and back."""

from __future__ import annotations

import pytest

from support.group_requests import leave, stable
from support.memory_broker import MemoryBroker, scenario


@scenario()
async def test_the_reason_is_logged(broker: MemoryBroker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "kavka.groupcoord")
    joined = await stable(broker)
    named = [{"member_id": joined.member_id, "reason": "had enough"}]
    await leave(broker, "", members=named)
    assert "client reason: had enough" in caplog.text
