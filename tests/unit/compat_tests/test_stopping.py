"""A signal ends `kavka compat` with the broker that it has started, and nothing of it stays."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kavka.compat_tests import stopping
from kavka.compat_tests.broker import OwnKavka
from support.broker import kavka_environment
from support.wait import eventually

WITHIN_S = 60.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Compat:
    """The command as a process; its temporary files are in `place`."""

    def __init__(self, place: Path, *, ignores_hang_up: bool = False) -> None:
        self._place = place
        self._said = place.parent / "said"
        with self._said.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kavka", "compat", "--apis", "all"],
                env={**kavka_environment(), "TMPDIR": str(place)},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_ignore_hang_up if ignores_hang_up else None,
            )

    def said(self) -> str:
        return self._said.read_text(errors="replace")

    def broker(self) -> int:
        """The process of its broker, as soon as there is one."""
        return eventually(self._child, within_s=WITHIN_S, what="a broker", detail=self.said)

    def _child(self) -> int | None:
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                status = (entry / "stat").read_text().rpartition(")")[2].split()
                is_broker = b"\0kavka\0start\0" in (entry / "cmdline").read_bytes()
            except OSError:  # it has just ended
                continue
            if int(status[1]) == self.process.pid and is_broker:
                return int(entry.name)
        return None

    def await_work(self) -> None:
        """Wait until it has created a topic."""
        eventually(
            lambda: [*self._place.glob("kavka-compat-*/data/*-0")],
            within_s=WITHIN_S,
            what="a topic",
            detail=self.said,
        )

    def end(self) -> int:
        return self.process.wait(WITHIN_S)


def _ignore_hang_up() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def runs(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    found = tmp_path / "temporary"
    found.mkdir()
    yield found


def assert_nothing_stays(compat: Compat, broker: int, place: Path) -> None:
    assert not runs(broker)
    assert [*place.glob("kavka-compat-*")] == []
    assert "Traceback" not in compat.said()


def ended(compat: Compat, broker: int | None) -> None:
    """Whatever has become of the test."""
    for process_id in (compat.process.pid, *([] if broker is None else [broker])):
        if runs(process_id):
            os.kill(process_id, signal.SIGKILL)
    compat.end()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize(
    ("number", "when"),
    [*((number, "works") for number in SIGNALS), (signal.SIGTERM, "starts")],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_signal_ends_it_with_its_broker(number: signal.Signals, when: str, place: Path) -> None:
    compat, broker = Compat(place), None
    try:
        broker = compat.broker()
        if when == "works":
            compat.await_work()
        compat.process.send_signal(number)
        assert compat.end() == 128 + number
        assert_nothing_stays(compat, broker, place)
    finally:
        ended(compat, broker)


def test_a_broker_that_does_not_end_is_killed_when_it_is_not_waited_for(place: Path) -> None:
    """As at the second signal."""

    async def exit_code() -> int | None:
        process = OwnKavka(place)
        await process.start()
        assert process.process is not None
        process.process.send_signal(signal.SIGSTOP)
        stop = asyncio.ensure_future(process.stop())
        await asyncio.sleep(0)
        stop.cancel()
        try:
            with pytest.raises(asyncio.CancelledError):
                await stop
            return process.process.returncode
        finally:
            if process.process.returncode is None:
                process.process.kill()

    assert asyncio.run(exit_code()) == -signal.SIGKILL


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_below_nohup_it_goes_on(place: Path) -> None:
    compat, broker = Compat(place, ignores_hang_up=True), None
    try:
        broker = compat.broker()
        compat.process.send_signal(signal.SIGHUP)
        compat.await_work()
        compat.process.send_signal(signal.SIGTERM)
        assert compat.end() == 128 + signal.SIGTERM
    finally:
        ended(compat, broker)


def test_work_that_ends_by_itself() -> None:
    async def work() -> int:
        return 7

    before = [signal.getsignal(number) for number in SIGNALS]
    assert stopping.run(work()) == 7
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_cancellation_that_no_signal_has_asked_for() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        stopping.run(work())
