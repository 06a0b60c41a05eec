"""A Spark cluster of its own processes: the standalone master of the installed PySpark, one worker
and its executors, whose Python has nothing that Kavka brings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from support.wait import eventually

MASTER: Final = "org.apache.spark.deploy.master.Master"
WORKER: Final = "org.apache.spark.deploy.worker.Worker"
CORES: Final = 2
WORKER_MEMORY: Final = "2g"
READY_WITHIN_S: Final = 120.0
END_WITHIN_S: Final = 30.0


class Cluster:
    """Started on entry, ended on exit. `address` is what `--master` takes."""

    def __init__(self, home: Path) -> None:
        import pyspark

        self._home = home
        self._spark_home = Path(pyspark.__file__).parent
        self._ends = ExitStack()
        self.address = ""
        self.python = home / "python" / "bin" / "python"
        """An interpreter without packages, of this version, as Spark wants it of its executors."""

    def __enter__(self) -> Self:
        with ExitStack() as ends:
            subprocess.run(
                [sys.executable, "-m", "venv", "--without-pip", self._home / "python"], check=True
            )
            self.address = self._start(
                ends, "master", [MASTER, "--port", "0"], r"Starting Spark master at (\S+)"
            )
            work = ["--cores", str(CORES), "--memory", WORKER_MEMORY]
            work += ["--work-dir", str(self._home / "work"), self.address]
            self._start(ends, "worker", [WORKER, *work], r"Successfully (registered) with master")
            self._ends = ends.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ends.close()

    def _start(self, ends: ExitStack, name: str, command: Sequence[str], ready: str) -> str:
        """Start a process; what the group of `ready` matches in its log, once it does."""
        log = self._home / f"{name}.log"
        where = ["--host", "127.0.0.1", "--webui-port", "0"]
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        with log.open("wb") as output:
            process = subprocess.Popen(
                [self._spark_home / "bin" / "spark-class", command[0], *where, *command[1:]],
                env={**kept, "SPARK_HOME": str(self._spark_home), "SPARK_LOCAL_IP": "127.0.0.1"},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        ends.callback(_end, process)

        def found() -> str | None:
            assert process.poll() is None, log.read_text()
            match = re.search(ready, log.read_text())
            return match[1] if match else None

        return eventually(found, within_s=READY_WITHIN_S, what=f"Spark's {name} is ready")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
