"""`kavka tap` as a process, in front of a broker."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from support.broker import kavka_environment

FIRST_PORT = re.compile(r"kavka tap: [\w.]+:(\d+) leads to .* \(bootstrap\)")
READY = "kavka tap: ready"
STOP_WITHIN_S = 60.0
TAP = (sys.executable, "-m", "kavka", "tap")


class Tap:
    """A running tap that keeps a capture: `messages` shows it, once it is stopped."""

    def __init__(self, home: Path, bootstrap: str, *options: str) -> None:
        home.mkdir(exist_ok=True)
        self.capture = home / "capture"
        self.lines_path = home / "lines"
        listen = ("--listen", "127.0.0.1:0", "--bootstrap-server", bootstrap)
        with self.lines_path.open("wb") as lines:
            self.process = subprocess.Popen(
                [*TAP, *listen, "--write", str(self.capture), *options],
                stdout=lines,
                stderr=subprocess.PIPE,
                env=kavka_environment(),
                text=True,
            )
        self.said: list[str] = []
        try:
            self.bootstrap = f"127.0.0.1:{self._first_port()}"
        except BaseException:
            self.close()
            raise

    def _first_port(self) -> str:
        """Where it leads to the broker that it was given, once it listens."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if READY in line:
                break
        found = FIRST_PORT.search("".join(self.said))
        assert found, "".join(self.said)
        return found[1]

    def stop(self, signum: int = signal.SIGINT) -> None:
        """Stop it as Ctrl-C does; it must print all that it has."""
        assert self.process.stderr is not None
        self.process.send_signal(signum)
        rest = self.process.stderr.read()
        assert self.process.wait(STOP_WITHIN_S) == 0, rest
        assert not rest, rest

    def lines(self) -> list[str]:
        """What it printed."""
        return self.lines_path.read_text().splitlines()

    def messages(self, *options: str) -> list[dict[str, Any]]:
        """What `kavka tap --read` prints as JSON."""
        return [json.loads(line) for line in self.read("--output", "json", *options)]

    def read(self, *options: str) -> list[str]:
        """What `kavka tap --read` prints."""
        done = subprocess.run(
            [*TAP, "--read", str(self.capture), *options],
            env=kavka_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """End it in any way."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()
