"""What the mirror says of its progress."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.admin.printing import print_table
from kavka.tools.perf.client import now_ms
from kavka.tools.progress import Status
from kavka.tools.properties import without_effect

SILENCE_MS: Final = 10_000
"""Without anything from the target that is waited for; then it is said, or looked what is there."""


class Report:
    """Of one run."""

    def __init__(self, form: str | None) -> None:
        self._is_json = form == "json"
        self._status = None if self._is_json else Status()
        self._start_ms = now_ms()
        self.records: Counter[TopicPartition] = Counter()
        """Copied in this run."""

        self._unknown: set[str] = set()
        """Properties that were said to have no effect."""

        self.ends: Mapping[TopicPartition, int] = {}
        self.positions: Mapping[TopicPartition, int] | None = None
        """Of the source: the ends, and what was copied up to; None until the ledger is read."""

        self.groups: dict[str, int] = {}
        """How many offsets are now in the target, by group; without groups that have none there."""

        self.foreign: dict[str, int] = {}
        """How many are left as they are there."""

    @property
    def lag(self) -> int:
        """Offsets in the source that are not copied."""
        positions = self.positions or {}
        return sum(max(0, end - positions.get(at, 0)) for at, end in self.ends.items())

    def copied(
        self, counts: Mapping[TopicPartition, int], positions: Mapping[TopicPartition, int]
    ) -> None:
        """A transaction was committed."""
        self.records.update(counts)
        self.positions = shown = dict(positions)
        if self._status is not None:
            self._status.show(
                lambda: (
                    f"{self.records.total():,} records copied, {self._rate():,.0f} a second; "
                    f"{self.lag:,} to go; {len(shown)} partitions"
                )
            )

    def looked(self, ends: Mapping[TopicPartition, int]) -> None:
        """The source's ends are known anew."""
        self.ends = ends
        if self._is_json:
            self._event("progress", records=self.records.total(), lag=self.lag)

    def begins_at(self, position: Callable[[TopicPartition], int | None]) -> None:
        """A session has read up to where each partition was copied before."""
        if self.positions is None:
            self.positions = {
                topic_partition: position(topic_partition) or 0 for topic_partition in self.ends
            }

    def warn(self, text: str) -> None:
        """Say it on standard error."""
        print(text, file=sys.stderr)

    def without_effect(self, names: Iterable[str]) -> None:
        """Say that the clients have no such properties: of each once, however many there are."""
        new = set(names) - self._unknown
        self._unknown |= new
        without_effect(sorted(new))

    def end(self) -> None:
        """The summary; nothing if it does not know what is copied."""
        if self._status is not None:
            self._status.close()
        if self.positions is None:
            return
        if self._is_json:
            names = ("topic", "partition", "records", "position", "lag")
            self._event(
                "summary",
                records=self.records.total(),
                lag=self.lag,
                partitions=[dict(zip(names, row, strict=True)) for row in self._rows()],
                groups=[
                    {"group": group, "offsets": count, "foreign": self.foreign.get(group, 0)}
                    for group, count in self.groups.items()
                ],
            )
            return
        rows: list[tuple[object, ...]] = [("TOPIC", "PARTITION", "RECORDS", "POSITION", "LAG")]
        rows += self._rows()
        print_table((max(15, *(len(str(row[0])) for row in rows)), 10, 10, 15, 0), rows)
        print(f"{self.records.total()} records copied, {self.lag} offsets behind.")
        if translated := [group for group, count in self.groups.items() if count]:
            print(f"Offsets of {len(translated)} groups are translated.")
        for group, count in self.foreign.items():
            print(f"{count} offsets of group {group} are left as consumers there have set them.")

    def _rows(self) -> Iterator[tuple[object, ...]]:
        for (topic, partition), end in sorted(self.ends.items()):
            position = (self.positions or {}).get((topic, partition), 0)
            copied = self.records[topic, partition]
            yield topic, partition, copied, position, max(0, end - position)

    def _rate(self) -> float:
        return self.records.total() * 1000 / max(1, now_ms() - self._start_ms)

    def _event(self, name: str, **content: Any) -> None:
        print(json.dumps({"event": name, "timeMs": now_ms(), **content}), flush=True)


class Repeated:
    """Something that is tried again and again: why it fails is said once, until that changes."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._said = ""

    def say(self, text: str) -> None:
        """It has failed."""
        if text != self._said:
            self._said = text
            self._report.warn(text)

    def is_over(self) -> None:
        """It has not: the next failure is another one."""
        self._said = ""


class Silence:
    """Of the target, while one thing is waited for: said when it lasts."""

    def __init__(self, report: Report, action: str) -> None:
        """`action`: what it has not done."""
        self._waits, self._action = Repeated(report), action
        self.is_heard()

    def is_heard(self) -> None:
        """Something has come."""
        self._since_ms = now_ms()
        self._waits.is_over()

    def goes_on(self) -> None:
        """Nothing has, for a while more."""
        if now_ms() - self._since_ms >= SILENCE_MS:
            within_s = SILENCE_MS / 1000
            self._waits.say(f"waits: the target has not {self._action} within {within_s:g} s")


class Once:
    """Warnings that are said again and again."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._said: set[str] = set()

    def warn(self, text: str) -> None:
        """Say it, unless it was said before."""
        if text not in self._said:
            self._said.add(text)
            self._report.warn(text)
