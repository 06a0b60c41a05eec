"""What the mirror says of its progress."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kavka.tools.admin.partition_offsets import Place
from kavka.tools.admin.printing import print_table
from kavka.tools.perf.client import now_ms

LINE_MS: Final = 500


class Report:
    """Of one run."""

    def __init__(self, form: str | None) -> None:
        self._is_json = form == "json"
        self._shows = sys.stderr.isatty() and not self._is_json
        self._start_ms = self._last_ms = now_ms()
        self._width = 0
        self.records: Counter[Place] = Counter()
        """Copied in this run."""

        self._has_begun = False
        self.ends: Mapping[Place, int] = {}
        self.positions: Mapping[Place, int] = {}
        """Of the source: the ends, and what was copied up to."""

        self.groups: dict[str, int] = {}
        """How many offsets are now in the target, by group; without groups that have none there."""

        self.foreign: dict[str, int] = {}
        """How many are left as they are there."""

    @property
    def lag(self) -> int:
        """Offsets in the source that are not copied."""
        return sum(max(0, end - self.positions.get(at, 0)) for at, end in self.ends.items())

    def copied(self, counts: Mapping[Place, int], positions: Mapping[Place, int]) -> None:
        """A transaction was committed."""
        self.records.update(counts)
        self.positions = dict(positions)
        if self._shows and now_ms() - self._last_ms >= LINE_MS:
            self._last_ms = now_ms()
            self._line(
                f"{self.records.total():,} records copied, {self._rate():,.0f} a second; "
                f"{self.lag:,} to go; {len(self.positions)} partitions"
            )

    def looked(self, ends: Mapping[Place, int]) -> None:
        """The source's ends are known anew."""
        self._has_begun = True
        self.ends = ends
        if self._is_json:
            self._event("progress", records=self.records.total(), lag=self.lag)

    def warn(self, text: str) -> None:
        """Say it on standard error."""
        self._line("")
        print(text, file=sys.stderr)

    def end(self) -> None:
        """The summary; nothing if it never began."""
        if not self._has_begun:
            return
        self._line("")
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
            position = self.positions.get((topic, partition), 0)
            copied = self.records[topic, partition]
            yield topic, partition, copied, position, max(0, end - position)

    def _rate(self) -> float:
        return self.records.total() * 1000 / max(1, now_ms() - self._start_ms)

    def _line(self, text: str) -> None:
        """On the terminal's last line, in place of what is there."""
        if self._shows:
            print(f"\r{text.ljust(self._width)}", end="" if text else "\r", file=sys.stderr)
            self._width = len(text)

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
