"""Clients that send requests to the coordinator of the classic group "g" and remember responses."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, NamedTuple
from uuid import UUID

from kavka.groupcoord.classic.group import ClassicGroup
from kavka.log.journal import ReplyFuture
from kavka.wire.errors import ApiError, ErrorCode
from support.classic_groups import assert_replayed, assert_sound, code_of
from support.offset_groups import OffsetKit

FAST_HEARTBEAT: Final = "Heartbeat by the fast path"

_MEMBER_ID: Final = re.compile(r"\w+-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


class MemberIds(Random):
    """Member ids that reveal whose they are."""

    def __init__(self) -> None:
        self.asking = ""
        """The client whose request may lead to the next one."""
        self.clients: dict[str, str] = {}
        """By UUID."""

    def getrandbits(self, bits: int, /) -> int:
        number = len(self.clients)
        self.clients[str(UUID(int=number, version=4))] = self.asking
        return number

    def named(self, text: str) -> str:
        """A text with clients in place of member ids."""
        return _MEMBER_ID.sub(lambda found: self.clients[found[1]], text)


@dataclass(eq=False)
class Client:
    """What a client knows."""

    name: str
    instance_id: str | None = None
    member_id: str = ""
    generation: int = -1
    protocol: str = "range"
    members: Sequence[str] = ()
    """All member ids, if it leads."""
    assignment: bytes = b""
    last: tuple[str, ErrorCode] = ("", ErrorCode.NONE)
    """API and error code of the last response."""
    last_heartbeat: ErrorCode = ErrorCode.NONE
    values: dict[str, Any] = field(default_factory=dict)
    """Of its JoinGroup requests, as `ClassicKit.join` calls them."""

    def received(self, api: str, future: ReplyFuture) -> None:
        """A response."""
        code, answer = code_of(future), future.response
        self.last = (api, code)
        if api == "SyncGroup" and not code:
            assert (answer.protocol_type, answer.protocol_name) == ("consumer", self.protocol)
            self.assignment = answer.assignment
        elif api == "SyncGroup" and answer is not None:
            assert (answer.protocol_type, answer.assignment) == (None, b"")
        elif code in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = getattr(answer, "member_id", self.member_id)
        elif api == "JoinGroup" and not code:
            assert answer.protocol_type == self.values.get("kind", "consumer")
            assert bool(answer.members) == (answer.leader == answer.member_id)
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self.protocol = answer.protocol_name
            self.members = [member.member_id for member in answer.members]
            assert len(set(self.members)) == len(self.members)


class Request(NamedTuple):
    """A request of a client."""

    client: Client
    api: str
    future: ReplyFuture


class ClassicClients:
    """The coordinator, and requests to it."""

    def __init__(self) -> None:
        self.ids = MemberIds()
        self.kit = OffsetKit(random=self.ids)
        self.kit.begin()
        self.waiting: list[Request] = []
        """Requests whose responses the clients have not received."""

    def join(self, client: Client, member_id: str) -> ReplyFuture:
        """JoinGroup."""
        self.ids.asking = client.name
        future = self.kit.join(
            member_id, client_id=client.name, instance_id=client.instance_id, **client.values
        )
        self.waiting.append(Request(client, "JoinGroup", future))
        return future

    def sync(
        self,
        client: Client,
        assignments: Mapping[str, bytes] | None = None,
        **values: Any,
    ) -> None:
        """SyncGroup. A leader assigns to each member its name, unless there are `assignments`."""
        if assignments is None:
            assignments = {
                member_id: self.ids.named(member_id).encode() for member_id in client.members
            }
        fields = {
            "member_id": client.member_id,
            "generation": client.generation,
            "protocol": client.protocol,
            **values,
        }
        future = self.kit.sync(assignments=assignments, instance_id=client.instance_id, **fields)
        self.waiting.append(Request(client, "SyncGroup", future))

    def heartbeat(self, client: Client, **values: Any) -> ErrorCode:
        """Heartbeat."""
        fields = {"member_id": client.member_id, "generation": client.generation, **values}
        before = self.kit.fast_heartbeats
        code = self.kit.beat(instance_id=client.instance_id, **fields)
        api = FAST_HEARTBEAT if self.kit.fast_heartbeats > before else "Heartbeat"
        return self.ask(client, api, lambda: code)

    def ask(self, client: Client, api: str, ask: Callable[[], Any]) -> ErrorCode:
        """A request that is answered at once, by an error code, a list of one, or an ApiError."""
        future = ReplyFuture()
        try:
            answer = ask()
            future.complete(answer[0] if isinstance(answer, list) else answer)
        except ApiError as error:
            future.complete(error)
        self.waiting.append(Request(client, api, future))
        return code_of(future)

    def receive(self) -> list[Request]:
        """The clients receive the responses that have been sent."""
        answered = [request for request in self.waiting if request.future.is_complete]
        self.waiting = [request for request in self.waiting if not request.future.is_complete]
        for request in answered:
            request.client.received(request.api, request.future)
        return answered

    def check(self) -> None:
        """Each request is answered or waits in the group, the group is sound, and a stable one is
        as it is read from the log."""
        kit = self.kit
        unanswered = {
            id(request.future) for request in self.waiting if not request.future.is_complete
        }
        waiting = {id(future) for future in kit.shard.resign()}
        assert waiting <= unanswered
        assert waiting == unanswered or not kit.journal.is_fully_committed
        group = kit.shard.state.groups.get("g")
        if isinstance(group, ClassicGroup):
            assert_sound(group, kit)
            assert_replayed(group, kit)
        else:
            assert len(kit.shard.timers) == 1, "that for the expiry of offsets"
