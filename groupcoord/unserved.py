"""Stands in for a protocol's groups until they are served: only groups that keep offsets."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence

from kavka.groupcoord.classic.requests import ClassicRequests
from kavka.groupcoord.group import PartitionCheck
from kavka.groupcoord.state import GroupsState
from kavka.log.journal import Decision, Record, Ticket
from kavka.wire.errors import ApiError, ErrorCode


class SimpleGroup:
    kind = "classic"
    protocol_type = ""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id

    def state(self, now_ms: int) -> str:
        return "Empty"

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        is_transactional: bool,
        version: int,
    ) -> PartitionCheck | None:
        if generation >= 0:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return None

    def committed_by(self, member_id: str, now_ms: int) -> None: ...

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None: ...

    def check_delete(self) -> None: ...

    def check_offset_delete(self) -> None: ...

    def is_subscribed_to(self, topic: str) -> bool:
        return False

    def expires_since(self) -> int | None:
        return 0

    def tombstones(self) -> Sequence[Record]:
        name = self.group_id.encode()
        return [Record(b"\x00\x02" + len(name).to_bytes(2, "big") + name, None)]


class Unserved:
    def __init__(self, state: GroupsState) -> None:
        self._state = state
        self.classic: ClassicRequests

    def simple_group(self, group_id: str) -> SimpleGroup:
        return SimpleGroup(group_id)

    def apply(self, version: int, record: Record) -> None:
        if version == 2 and record.value is None:
            self._state.groups.pop(record.key[4:].decode(), None)

    def loaded(self, now_ms: int) -> Iterator[Decision]:
        return iter(())

    def expire(self, key: Hashable, now_ms: int) -> Decision:
        return Decision()

    def metadata_changed(self, topics: Collection[str], now_ms: int) -> Iterator[Decision]:
        return iter(())

    def tickets(self) -> list[Ticket]:
        return []
