"""One fuzz run: a broker of its own, frames into it, a prober beside it, and what it must show.

A run fails when the broker ends, writes a traceback or answers UNKNOWN_SERVER_ERROR (which it
logs as an error), grows beyond `RSS_BYTES_MAX`, lets others wait longer than `NET_P99_MS_MAX`, or
when a stock client cannot use it afterwards.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from fuzz.client import OUTCOMES, Client
from fuzz.frames import Frames
from fuzz.records import bombs
from fuzz.world import BROKER_ID, CLIENT_TIMEOUT_MS, prepare, tidy, write_and_read
from support.broker import PlainKavka, kavka_environment
from support.ports import HOST

MIB = 1024 * 1024
RSS_BYTES_MAX = 512 * MIB
"""What a broker may hold at its worst: itself (60 MiB), requests and answers on their way
(`IN_USE_BYTES_MAX` and `POOL_BYTES_MAX`, 160 MiB), and four open batches (`INFLATED_BYTES_MAX`,
64 MiB each)."""

NET_P99_MS_MAX = 50.0
PROGRESS_EVERY_S = 10.0
TIDY_EVERY_FRAMES = 20_000

SETTINGS = {
    "node.id": str(BROKER_ID),
    "auto.create.topics.enable": "false",
    "fetch.max.bytes": "65536",
    "socket.listen.backlog.size": "1024",
    "connections.max.idle.ms": "10000",
}
"""Else the frames would make topics without end, and answers of megabytes; and connections that
were left while their damaged fetch waits would be kept for ten minutes."""

ASKING = {"kavka.http.listener": f"{HOST}:0"}
"""It asks its clients for metrics where it has a page that shows them."""

FAILURE = re.compile(r"^Traceback|\bERROR\b", re.MULTILINE)
FRAME_NUMBER = re.compile(r"correlation id (\d+)")


class Failed(AssertionError):
    """A run showed something that must not be; the text says what, and which frames."""


class Session:
    """A run of `count` frames that come of `seed`."""

    def __init__(
        self,
        home: Path,
        seed: int,
        count: int,
        say: Callable[[str], None] = print,
        *,
        net_p99_ms_max: float = math.inf,
    ) -> None:
        """`net_p99_ms_max`: how long others may wait; not where other tests take the cores."""
        self.seed = seed
        self._net_p99_ms_max = net_p99_ms_max
        self.count = count
        self._say = say
        self._broker = PlainKavka(home / "broker", {**SETTINGS, **ASKING})
        self._client: Client | None = None
        self._log_read = 0
        self._rss_bytes_max = 0
        self._rss_bytes_began = 0
        self._tidied = 0
        self._spoke_s = self._began_s = 0.0
        self.report: dict[str, Any] = {}

    # -- a run ----------------------------------------------------------------------------

    def run(self) -> dict[str, Any]:
        """Do it; the figures. Failed when it shows what must not be."""
        self._say(f"fuzz: seed {self.seed}, {self.count} frames")
        broker = self._broker
        try:
            broker.start()
            self._run(broker)
        finally:
            broker.close()
        return self.report

    def _run(self, broker: PlainKavka) -> None:
        frames = Frames(self.seed, prepare(broker))
        bombs()  # made before the clock runs
        client = self._client = Client(
            frames.kinds, frames.targets, broker.port, on_tick=self._tick
        )
        probing = self._start_prober()
        self._rss_bytes_began = self._rss_bytes()
        self._began_s = self._spoke_s = time.monotonic()
        try:
            client.run(frames.each(self.count))
            took_s = time.monotonic() - self._began_s
            waits = self._stop_prober(probing)
        except OSError as failure:  # no server listens there
            self._fail(f"the broker can't be reached: {failure}")
        finally:
            probing.kill()
            probing.wait()
        self._check_log()
        tidy(self._broker)
        self._stock_client()
        self._rss_bytes()
        self.report = {
            "seed": self.seed,
            "frames": client.done,
            "seconds": round(took_s, 1),
            "frames_per_s": round(client.done / took_s),
            "connections": client.connections,
            "rss_mib_began": self._rss_bytes_began // MIB,
            "rss_mib_max": self._rss_bytes_max // MIB,
            "prober": waits,
            "by_kind": _table(frames.kinds, client.outcomes),
            "by_api": _table(frames.targets, client.by_target),
        }
        self._check()
        broker.stop()

    def _check(self) -> None:
        report = self.report
        if self._rss_bytes_max > RSS_BYTES_MAX:
            raise Failed(f"the broker grew to {report['rss_mib_max']} MiB")
        if report["prober"]["net_ms"]["p99"] > self._net_p99_ms_max:
            raise Failed(f"others waited too long: {report['prober']}")

    def replay(self, numbers: range) -> None:
        """Send these frames, each on its own connection, and report what became of each."""
        broker = self._broker
        try:
            broker.start()
            frames = Frames(self.seed, prepare(broker))
            for number in numbers:
                frame = frames.frame(number)
                self._say(f"{number}: {frames.kinds[frame.kind]}, {frames.targets[frame.target]}")
                self._say(f"  {frame.stream[:400].hex(' ')}")
                client = Client(frames.kinds, frames.targets, broker.port, on_tick=lambda _: None)
                client.run([frame])
                outcome = client.outcomes[frame.kind].index(1)
                self._say(f"  {OUTCOMES[outcome]}\n{self._new_log()}")
        finally:
            broker.close()

    def _stock_client(self) -> None:
        """A client that knows nothing of all this writes and reads."""
        written, read = write_and_read(self._broker, "afterwards")
        if read != written:
            raise Failed(f"a stock client wrote {len(written)} records and read {len(read)}")

    # -- while it runs --------------------------------------------------------------------

    def _tick(self, done: int) -> None:
        process = self._broker.process
        assert process is not None
        if process.poll() is not None:
            self._fail(f"the broker ended with {process.returncode}")
        self._rss_bytes()
        self._check_log()
        if done - self._tidied >= TIDY_EVERY_FRAMES:
            self._tidied = done
            tidy(self._broker)
        now_s = time.monotonic()
        if now_s - self._spoke_s >= PROGRESS_EVERY_S:
            self._spoke_s = now_s
            rate = done / (now_s - self._began_s)
            self._say(
                f"fuzz: {done} frames, {rate:.0f}/s, broker {self._rss_bytes() // MIB} MiB, "
                f"log {self._log_read // MIB} MiB"
            )

    def _fail(self, why: str) -> NoReturn:
        numbers = self._client.in_flight() if self._client is not None else []
        raise Failed(
            f"{why}\nframes on their way: {numbers}\n{self._broker.tail()}\n"
            f"(again: make fuzz FUZZ_SEED={self.seed} FUZZ_REPLAY=<number, or first-last>)"
        )

    def _rss_bytes(self) -> int:
        process = self._broker.process
        assert process is not None
        pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
        self._rss_bytes_max = max(self._rss_bytes_max, pages * 4096)
        return pages * 4096

    def _new_log(self) -> str:
        text = self._broker.output_from(self._log_read)
        self._log_read += len(text)
        return text.decode(errors="replace")

    def _check_log(self) -> None:
        text = self._new_log()
        failure = FAILURE.search(text)
        if failure is None:
            return
        numbers = sorted({int(number) for number in FRAME_NUMBER.findall(text)})
        shown = text[max(0, failure.start() - 1000) : failure.start() + 4000]
        self._fail(f"the broker failed at frames {numbers}:\n{shown}")

    # -- the prober -----------------------------------------------------------------------

    def _start_prober(self) -> subprocess.Popen[bytes]:
        process = self._broker.process
        assert process is not None
        environment = kavka_environment()
        return subprocess.Popen(
            [sys.executable, "-m", "fuzz.prober", str(self._broker.port), str(process.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )

    def _stop_prober(self, probing: subprocess.Popen[bytes]) -> Any:
        output, _ = probing.communicate(b"\n", timeout=CLIENT_TIMEOUT_MS / 1000)
        if probing.returncode != 0:
            self._fail(f"the prober ended with {probing.returncode}")
        return json.loads(output)


def _table(names: list[str], counts: list[list[int]]) -> dict[str, Mapping[str, int]]:
    return {
        name: {outcome: n for outcome, n in zip(OUTCOMES, row, strict=True) if n}
        for name, row in zip(names, counts, strict=True)
    }
