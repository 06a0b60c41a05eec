"""Member ids; the rest of JoinGroup is in tests/scenarios/classic_groups."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from kavka.groupcoord.classic import joining
from kavka.wire.errors import ErrorCode
from support.classic_groups import DELAY_MS, ClassicKit, assert_sound, code_of


@pytest.mark.parametrize(("instance_id", "prefix"), [(None, "client"), ("i", "i")])
def test_member_ids_are_random_uuids_with_a_prefix(instance_id: str | None, prefix: str) -> None:
    def member_id(seed: int) -> str:
        kit = ClassicKit(random=Random(seed))
        future = kit.join(client_id="client", instance_id=instance_id)
        kit.advance(DELAY_MS)
        found: str = future.response.member_id
        return found

    found, _, uuid = member_id(1).partition("-")
    assert (found, UUID(uuid).version) == (prefix, 4)
    assert member_id(1) == f"{prefix}-{uuid}" != member_id(2)


def test_the_oldest_of_too_many_pending_members_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "PENDING_MAX", 3)
    kit = ClassicKit()
    ids = [kit.join().response.member_id for _ in range(5)]
    assert list(kit.group.pending) == ids[2:]
    assert_sound(kit.group, kit)
    assert code_of(kit.join(ids[1])) is ErrorCode.UNKNOWN_MEMBER_ID
    futures = [kit.join(member_id) for member_id in ids[2:]]
    kit.advance(2 * DELAY_MS)
    assert [code_of(future) for future in futures] == [ErrorCode.NONE] * 3
