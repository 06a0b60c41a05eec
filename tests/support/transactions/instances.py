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

    def reports(self, *whats: str, by: str = "") -> list[Report]:
        """Lines of some kinds, or all; of one instance, or all."""
        with self._lock:
            found = list(self._reports)
        return [
            one for one in found if (not whats or one.what in whats) and by in ("", one.instance)
        ]

    def tail(self) -> str:
        """The last of it, for messages about a failed test."""
        kept = [one for one in self.reports() if one.what not in ("sent", "committed")]
        return "\n".join(
            f"{one.at_ms % 1_000_000} {one.instance} {one.what} {one.attempt} {one.why}"
            for one in kept[-SHOWN_LINES:]
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

    def reported(self, *whats: str) -> list[Report]:
        """Its reports of some kinds."""
        return self._story.reports(*whats, by=self.name)

    def end(self) -> Report | None:
        """Its last words."""
        return next(iter(self.reported(*ENDS)), None)

    def tail(self) -> str:
        """What it, and all, reported last."""
        return self.errors() + "\n" + self._story.tail()
