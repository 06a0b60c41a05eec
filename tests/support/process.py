"""A broker as a process of its own: started, killed, stopped and started again on its data.

Kavka and Apache Kafka are subclasses with one interface, so a test written for one can be run
on the other. Processes are addressed by the id of the child and by nothing else.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Self

from support.ports import HOST, Ports
from support.wait import eventually

STOP_WITHIN_S = 60.0
OUTPUT_SHOWN_BYTES = 8_000


class BrokerProcess(ABC):
    """One broker; `home` is its directory, with `data` for what it stores."""

    kind: ClassVar[str]
    ready_within_s: ClassVar[float]
    exit_codes: ClassVar[Mapping[int, int]]
    """What a clean stop by a signal leaves as exit code."""

    replicas: ClassVar[int] = 1
    """How many replicas it can have of the topics that tests create."""

    def __init__(self, home: Path, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        self.home = home
        self.settings = dict(settings)
        self.ports = Ports()
        """Those that it listens on belong to it until `close`, also while it is down."""
        self.port = 0
        self.starts = 0
        self.ready_after_s = 0.0
        """How long the last start took."""
        self.process: subprocess.Popen[bytes] | None = None
        home.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def command(self) -> list[str]:
        """How to start it."""

    @abstractmethod
    def ready_port(self, output: str) -> int | None:
        """The client port, once the output says that the broker serves."""

    def environment(self) -> dict[str, str]:
        """The environment it runs in."""
        return dict(os.environ)

    def prepare(self) -> None:  # noqa: B027 - most need nothing
        """What must be done before the first start."""

    @property
    def bootstrap(self) -> str:
        """Its address, as clients take it."""
        return f"{HOST}:{self.port}"

    @property
    def data_dir(self) -> Path:
        """Directory of the partitions."""
        return self.home / "data"

    def output(self) -> str:
        """What it has printed since its last start."""
        return self._output_path.read_text(errors="replace") if self.starts else ""

    def output_from(self, position: int) -> bytes:
        """What it has printed behind the first `position` bytes since its last start."""
        with self._output_path.open("rb") as output:
            output.seek(position)
            return output.read()

    @property
    def _output_path(self) -> Path:
        return self.home / f"output-{self.starts}.log"

    def start(self) -> Self:
        """Start it and wait until it serves. Started again, it keeps port and data."""
        began = time.monotonic()
        self.launch()
        self.await_ready(self.ready_within_s)
        self.ready_after_s = time.monotonic() - began
        return self

    def await_ready(self, within_s: float) -> None:
        """Wait until it serves, after `launch`."""
        self.port = eventually(
            self._poll_ready, within_s=within_s, what=f"{self.kind} serves", detail=self.tail
        )

    def launch(self) -> None:
        """Start it, and don't wait."""
        assert self.process is None, f"{self.kind} runs already"
        if self.starts == 0:
            self.prepare()
        self.starts += 1
        with self._output_path.open("wb") as output:
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.environment(),
                cwd=self.home,
                start_new_session=True,  # a Ctrl-C at the tests is not one for the broker
            )

    def _poll_ready(self) -> int | None:
        assert self.process is not None
        code = self.process.poll()
        port = self.ready_port(self.output())
        if code is not None:
            raise AssertionError(f"{self.kind} ended with {code} at its start\n{self.tail()}")
        return port

    def tail(self) -> str:
        """The last of its output, for messages about a failed test."""
        return self.output()[-OUTPUT_SHOWN_BYTES:]

    def kill(self) -> None:
        """SIGKILL: it gets no chance to write anything more."""
        process = self._running()
        process.kill()
        process.wait(STOP_WITHIN_S)
        self.process = None

    def stop(self, signum: int = signal.SIGTERM, within_s: float = STOP_WITHIN_S) -> None:
        """Ask it to end, and see that it ends as it should."""
        process = self._running()
        process.send_signal(signum)
        try:
            code = process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"{self.kind} runs {within_s} s after {signal.Signals(signum).name}\n{self.tail()}"
            ) from None
        self.process = None
        assert code == self.exit_codes[signum], f"{self.kind} ended with {code}\n{self.tail()}"

    def close(self) -> None:
        """End it in any way, for the end of a test."""
        try:
            if self.process is not None:
                self.kill()
        finally:
            self.ports.release()

    def _running(self) -> subprocess.Popen[bytes]:
        assert self.process is not None, f"{self.kind} does not run"
        code = self.process.poll()
        assert code is None, f"{self.kind} ended by itself with {code}\n{self.tail()}"
        return self.process


@contextmanager
def running(brokers: Collection[BrokerProcess]) -> Iterator[None]:
    """Start brokers at the same time; they are ended in any way, each even if another has ended by
    itself, which is an error."""
    with ExitStack() as stack:
        for broker in brokers:
            stack.callback(broker.close)
        with ThreadPoolExecutor(len(brokers) or 1) as pool:
            list(pool.map(BrokerProcess.start, brokers))
        yield
