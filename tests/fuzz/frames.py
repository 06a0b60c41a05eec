"""The numbered frames of one run. Seed and number give a frame, regardless of what was sent before.

(But for the ids of topics, which the broker under test chose.) The number is also the frame's
correlation id, so a broker's complaint leads back to it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from fuzz.mutations import KINDS, Kind, with_records
from fuzz.records import bombs
from fuzz.requests import BOMB_TOPIC, CORRELATION_AT, Template, World, template, templates
from kavka.server.connections.dispatch import HANDLERS

BLOCK = 64
"""Frames that share one state of chance; one of them is made by making those before it."""

BOMB_EVERY = 1000
"""Of so many frames one is a bomb, or opens one."""

PRODUCE = 0
LIST_OFFSETS = 2
BOMB_TIMES = (-3, 0, 1_600_000_000_000, 1_700_000_000_000, 1_700_000_000_001)

_pack_correlation = struct.Struct(">i").pack_into


class Frame(NamedTuple):
    """What is sent: `stream` with its length in front. `kind` and `target` are indexes of
    `Frames.kinds` and `Frames.targets`; with `ends` nothing can follow on the connection."""

    number: int
    stream: bytes
    kind: int
    target: int
    ends: bool


class Frames:
    """The frames that come of one seed."""

    def __init__(self, seed: int, world: World) -> None:
        self.seed = seed
        self._by_api = templates(world, seed)
        self.targets: list[str] = []
        self._target_of: dict[tuple[int, int], int] = {}
        for of_api in self._by_api:
            for frame_template in of_api:
                key = (frame_template.api.key, frame_template.version)
                if key not in self._target_of:
                    self._target_of[key] = len(self.targets)
                    self.targets.append(f"{frame_template.api.name} v{frame_template.version}")
        self._all = [each for group in self._by_api for each in group]
        self._with_records = [each for each in self._all if each.records]
        self._wheel = [index for index, kind in enumerate(KINDS) for _ in range(kind.weight)]
        self.kinds = [kind.name for kind in KINDS] + ["bomb", "bomb opened"]
        self._bomb_produce, self._bomb_open = _bomb_templates()

    def block(self, index: int) -> list[Frame]:
        """The frames from `index * BLOCK` on."""
        rnd = Random((self.seed << 40) + index)
        first = index * BLOCK
        return [self._make(rnd, number) for number in range(first, first + BLOCK)]

    def each(self, count: int) -> Iterator[Frame]:
        """The first so many."""
        for index in range((count + BLOCK - 1) // BLOCK):
            for frame in self.block(index):
                if frame.number < count:
                    yield frame

    def frame(self, number: int) -> Frame:
        """A single one."""
        return self.block(number // BLOCK)[number % BLOCK]

    def _make(self, rnd: Random, number: int) -> Frame:
        random = rnd.random
        if random() * BOMB_EVERY < 1:
            return self._bomb(rnd, number)
        wheel, by_api = self._wheel, self._by_api
        index = wheel[int(random() * len(wheel))]
        kind: Kind = KINDS[index]
        group: Sequence[Template] = (
            self._with_records if kind.needs_records else by_api[int(random() * len(by_api))]
        )
        this = group[int(random() * len(group))]
        other = self._all[int(random() * len(self._all))]
        data = bytearray(this.frame)
        _pack_correlation(data, CORRELATION_AT, number)
        stream = kind.mutate(rnd, data, this, other)
        return Frame(number, stream, index, self._target_of[this.api.key, this.version], kind.ends)

    def _bomb(self, rnd: Random, number: int) -> Frame:
        opens = rnd.random() < 0.5
        group = self._bomb_open if opens else self._bomb_produce
        this = group[int(rnd.random() * len(group))]
        data = bytearray(this.frame)
        _pack_correlation(data, CORRELATION_AT, number)
        if opens:
            stream = struct.pack(">i", len(data)) + data
        else:
            stream = with_records(data, this, rnd.choice(bombs())[1])
        kind = len(KINDS) + opens
        return Frame(number, stream, kind, self._target_of[this.api.key, this.version], False)


def _bomb_templates() -> tuple[list[Template], list[Template]]:
    """Requests that write a bomb, and such that make the broker look into one."""
    produce, list_offsets = HANDLERS[PRODUCE][0], HANDLERS[LIST_OFFSETS][0]
    partition = {"index": 0, "records": b""}
    written = [
        template(
            produce,
            version,
            {
                "acks": 1,
                "timeout_ms": 1000,
                "topic_data": [{"name": BOMB_TOPIC, "partition_data": [partition]}],
            },
        )
        for version in (7, 9, 12)
    ]
    opened = [
        template(
            list_offsets,
            7,
            {
                "replica_id": -1,
                "topics": [
                    {
                        "name": BOMB_TOPIC,
                        "partitions": [{"partition_index": 0, "timestamp": timestamp}],
                    }
                ],
            },
        )
        for timestamp in BOMB_TIMES
    ]
    return written, opened
