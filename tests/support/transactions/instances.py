"""Processes with one instance each, and what they all have reported."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from support.talking import TalkingProcess
from support.transactions.clients import TransactionClient
from support.transactions.events import ENDS, Report, read

SOURCE, TARGET, GROUP = "input", "output", "transformers"
SHOWN_LINES = 30


class Story:
    """All that instances have reported, in the order of its arrival."""

    def __init__(self) -> None:
        self._reports: list[Report] = []
        self._lock = threading.Lock()

    def add_line(self, line: bytes) -> None:
        """An instance has reported something."""
        with self._lock:
            self._reports.append(read(line))

    def reports(self, *kinds: str, by: str = "") -> list[Report]:
        """Lines of some kinds, or all; of one instance, or all."""
        with self._lock:
            found = list(self._reports)
        return [
            report
            for report in found
            if (not kinds or report.what in kinds) and by in ("", report.instance)
        ]

    def tail(self) -> str:
        """The last of it, for messages about a failed test."""
        kept = [report for report in self.reports() if report.what not in ("sent", "committed")]
        return "\n".join(
            f"{report.at_ms % 1_000_000} {report.instance} {report.what} {report.attempt}"
            f" {report.why}"
            for report in kept[-SHOWN_LINES:]
        )


class Instance(TalkingProcess):
    """One process that transforms."""

    def __init__(
        self,
        client: TransactionClient,
        bootstrap: str,
        transactional_id: str,
        name: str,
        story: Story,
        home: Path,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.name = name
        self.transactional_id = transactional_id
        self._story = story
        arguments = [bootstrap, SOURCE, TARGET, GROUP, transactional_id, name]
        super().__init__(
            client.start(),
            [*arguments, *client.settings(more)],
            story.add_line,
            home / f"{client.name}-{name}.err",
        )

    def reported(self, *kinds: str) -> list[Report]:
        """Its reports of some kinds."""
        return self._story.reports(*kinds, by=self.name)

    def end(self) -> Report | None:
        """Its last words."""
        return next(iter(self.reported(*ENDS)), None)

    def tail(self) -> str:
        """What it, and all, reported last."""
        return self.errors() + "\n" + self._story.tail()
