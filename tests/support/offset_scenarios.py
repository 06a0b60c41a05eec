"""Scenarios of committed offsets: commands for them, besides those of `consumer_group_scenarios`.

A batch is shown as its offsets, `t-0=5`, and tombstones, `-t-0`; those of other groups than "g"
begin with its id, those of a transaction with its producer id. Codes of a response are shown only
if there is an error among them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import UUID

from kavka.groupcoord import listing
from kavka.groupcoord.offset_records import NO_TOPIC_ID
from kavka.groupcoord.offsets import OffsetToCommit
from kavka.wire.errors import ApiError, ErrorCode
from support.consumer_group_scenarios import ConsumerGroups
from support.group_scenarios import shown
from support.scenarios import Command

_PARTITION = re.compile(r"(.+)-(\d+)")


class CommittedOffsets(ConsumerGroups):
    """The machine. Every minute offsets that were not used for ten minutes expire."""

    def __init__(self) -> None:
        super().__init__()
        self.settings.offsets_retention_minutes = 10
        self.settings.offsets_retention_check_interval_ms = 60_000
        self.begin()

    def _try(self, operation: str, ask: Callable[[], Any]) -> Iterator[str]:
        """A request, and the error with which it is refused."""
        try:
            answer = ask()
        except ApiError as error:
            yield f"{operation}: {error.code.name}"
            return
        if hasattr(answer, "is_complete"):
            self.waiting.append((operation, answer, lambda codes: "OK"))
            yield f"{operation}: no response yet"
        elif isinstance(answer, str):
            yield f"{operation}: {answer}"

    def _member(self, command: Command) -> tuple[str, str | None, int]:
        """Its id, instance id, and epoch or generation."""
        name = command.text("member")
        known = self.classic.get(name)
        client = self.clients.get(name)
        member_id = known.member_id if known else client.member_id if client else name
        epoch = known.generation if known else client.epoch if client else -1
        instance_id = known.instance_id if known else None
        return member_id, command.get("instance") or instance_id, command.number("epoch", epoch)

    def _topic_id(self, command: Command, topic: str = "") -> UUID:
        if "topic_id" in command:
            return UUID(int=command.number("topic_id"))
        return self.known.ids.get(topic, NO_TOPIC_ID)

    @shown
    def do_commit(self, command: Command) -> Iterator[str]:
        """OffsetCommit of `topic-partition=offset[/metadata]`; TxnOffsetCommit if there is a
        `producer`. A member's come with the ids of the topics."""
        offsets = []
        for key, text in command.options.items():
            found = _PARTITION.fullmatch(key)
            if found is not None:
                command.get(key)
                offset, _, metadata = text.partition("/")
                topic_id = self._topic_id(command, found[1] if "member" in command else "")
                fields = found[1], int(found[2]), int(offset), command.number("leader_epoch", -1)
                offsets.append(OffsetToCommit(*fields, metadata or None, topic_id))
        member_id, instance_id, generation = self._member(command)
        producer_id = command.get("producer")
        values: dict[str, Any] = {
            "member_id": member_id,
            "instance_id": instance_id,
            "generation": generation,
            "version": command.number("version", 9),
            "retention_ms": command.ms("retention", -1),
            "producer_id": int(producer_id) if producer_id else None,
        }

        def ask() -> Any:
            codes = self.commit_offsets(offsets, command.text("group", "g"), **values)
            return _codes(offsets, codes) if isinstance(codes, list) else codes

        yield from self._try("commit", ask)

    @shown
    def do_end(self, command: Command) -> Iterator[str]:
        """A transaction's marker: `commit` or `abort`; and the offsets after it."""
        producer_id, how = command.words
        self.end(int(producer_id), committed=how == "commit")
        found = (f"{group_id}: {self._offsets(group_id)}" for group_id in self.shard.state.groups)
        yield " | ".join([*self.changes(), *found]).strip()

    def _offsets(self, group_id: str) -> str:
        found = sorted(self.offsets(group_id).items())
        return (
            " ".join(f"{topic}-{partition}={offset}" for (topic, partition), offset in found)
            or "no offsets"
        )

    @shown
    def do_offsets(self, command: Command) -> Iterator[str]:
        """All that groups have committed."""
        for group_id in command.words or ["g"]:
            yield f"{group_id}: {self._offsets(group_id)}"

    @shown
    def do_fetch(self, command: Command) -> Iterator[str]:
        """OffsetFetch of partitions; `stable` offsets only."""
        group_id = command.text("group", "g")
        member_id, _, epoch = self._member(command)
        try:
            if not self.shard.offsets.check_fetch(group_id, member_id or None, epoch):
                yield f"no group {group_id}"
        except ApiError as error:
            yield error.code.name
            return
        for word in command.words:
            match = _PARTITION.fullmatch(word)
            if match is not None:
                found = self.fetch(
                    match[1],
                    int(match[2]),
                    group_id,
                    topic_id=self._topic_id(command),
                    require_stable="stable" in command.words,
                )
                code = ErrorCode(found.error_code).name if found.error_code else ""
                more = f" leader epoch {found.leader_epoch}" if found.leader_epoch >= 0 else ""
                more += f" metadata {found.metadata}" if found.metadata else ""
                yield f"{word}: {code or found.offset}{more}"

    @shown
    def do_delete_offsets(self, command: Command) -> Iterator[str]:
        """OffsetDelete of the group "g"."""
        found = [_PARTITION.fullmatch(word) for word in command.words]
        partitions = [(match[1], int(match[2])) for match in found if match is not None]
        offsets = [OffsetToCommit(*partition, 0) for partition in partitions]
        yield from self._try("delete", lambda: _codes(offsets, self.delete_offsets(partitions)))

    @shown
    def do_delete_group(self, command: Command) -> Iterator[str]:
        """DeleteGroups, as often as needed."""
        for group_id in command.words:

            def ask(group_id: str = group_id) -> None:
                while not self.delete_group(group_id):
                    pass

            yield from self._try("delete", ask)

    @shown
    def do_list(self, command: Command) -> Iterator[str]:
        """ListGroups, of some `states` and `kinds`."""
        state = self.shard.state
        ids = [*state.groups, "unknown"]
        filters = command.list("states"), command.list("kinds")
        for group in listing.listed(state, ids, *filters, self.now_ms):
            protocol_type = group.protocol_type or "no protocol type"
            yield f"{group.group_id}: {group.kind}, {protocol_type}, {group.state}"

    @shown
    def do_topics_deleted(self, command: Command) -> None:
        """Topics as `name=id` were deleted; their offsets are deleted at once."""
        topics = [(name, UUID(int=command.number(name))) for name in command.options]
        self.shard.topics_deleted(topics, self.now_ms)


def _codes(offsets: Sequence[OffsetToCommit], codes: Sequence[int]) -> str | None:
    """The errors in a response, if there is one."""
    if not any(codes):
        return None
    named = zip(offsets, codes, strict=True)
    return ", ".join(
        f"{offset.topic}-{offset.partition} {ErrorCode(code).name}" for offset, code in named
    )
