"""What is imported after the start."""

from __future__ import annotations

import asyncio
import errno

import pytest

from kavka.server.runtime.lazy_imports import (
    BEGIN_AFTER_S,
    PAUSE_S,
    BackgroundImports,
    import_one_by_one,
)
from support.virtual import VirtualClock, VirtualTasks


class Importer:
    """Instead of `import_module`."""

    def __init__(self) -> None:
        self.imported: list[str] = []

    def __call__(self, name: str) -> None:
        self.imported.append(name)


@pytest.fixture
def importer(monkeypatch: pytest.MonkeyPatch) -> Importer:
    importer = Importer()
    monkeypatch.setattr("kavka.server.runtime.lazy_imports.import_module", importer)
    return importer


async def test_one_at_a_time_some_time_after_the_start(importer: Importer) -> None:
    tasks = VirtualTasks(VirtualClock())
    imports = BackgroundImports(tasks, ["a", "b", "c"])
    imports.begin()
    await tasks.advance(BEGIN_AFTER_S * 500)
    assert importer.imported == []
    await tasks.advance(BEGIN_AFTER_S * 500)
    assert importer.imported == ["a"]
    await tasks.advance(PAUSE_S * 1000)
    assert importer.imported == ["a", "b"]
    imports.stop()
    await tasks.advance(10_000)
    assert importer.imported == ["a", "b"]


async def test_imports_one_by_one_pause_between_any_two(
    importer: Importer,
) -> None:
    tasks = VirtualTasks(VirtualClock())
    importing = asyncio.ensure_future(import_one_by_one(tasks, ["a", "b", "c"]))
    seen = set[int]()
    while not importing.done():
        await asyncio.sleep(0)
        seen.add(len(importer.imported))
    assert importer.imported == ["a", "b", "c"]
    assert seen == {1, 2, 3}


async def test_a_module_that_can_not_be_read_now_is_read_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    imported: list[str] = []
    short = 2

    def import_or_fail(name: str) -> None:
        nonlocal short
        if name == "b" and short:
            short -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        imported.append(name)

    monkeypatch.setattr("kavka.server.runtime.lazy_imports.import_module", import_or_fail)
    tasks = VirtualTasks(VirtualClock())
    BackgroundImports(tasks, ["a", "b", "c"]).begin()
    await tasks.advance(BEGIN_AFTER_S * 1000 + 10_000)
    assert imported == ["a", "b", "c"]
    assert tasks.pending_timers == 0
