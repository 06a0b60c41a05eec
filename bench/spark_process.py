"""Spark beside the brokers: one JVM for the whole run, used for each of them in turn."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, ParamSpec, TypeVar

from bench import procs
from bench.helper import Helper

P = ParamSpec("P")
T = TypeVar("T")

START_TIMEOUT_S: Final = 300.0
"""Jars may have to be fetched."""

JOB_TIMEOUT_S: Final = 300.0
STOP_TIMEOUT_S: Final = 30.0


class SparkProcess:
    """A Python process with Spark's JVM below it, so that what Spark uses is counted by itself.

    It runs functions of `bench.spark_jobs`, one at a time, and is started by the first. A context
    manager that ends it.
    """

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._helper: Helper | None = None
        self._pid = 0

    def __enter__(self) -> SparkProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def call(
        self, function: Callable[P, T], /, *arguments: P.args, **named: P.kwargs
    ) -> tuple[T, float]:
        """What `function` returns there, and the CPU seconds that Spark used for it.

        RuntimeError with Spark's reason when it fails, TimeoutError after JOB_TIMEOUT_S.
        """
        from bench import spark_jobs  # needs PySpark

        if self._helper is None:
            self._helper = self._started()
        before_s = self._cpu_s()
        job = self._helper.start(spark_jobs.guarded, function, *arguments, **named)
        try:
            result = self._result(job, JOB_TIMEOUT_S)
        except TimeoutError:
            self.stop()
            raise
        return result, self._cpu_s() - before_s

    def stop(self) -> None:
        """End process and JVM, if they were started. The next call starts them again."""
        if self._helper is None:
            return
        from bench import spark_jobs

        helper, self._helper = self._helper, None
        with helper, suppress(BrokenProcessPool):  # killed before
            self._result(helper.start(spark_jobs.guarded, spark_jobs.stop), STOP_TIMEOUT_S)

    def _started(self) -> Helper:
        from bench import spark_jobs

        self._scratch.mkdir(exist_ok=True)
        with ExitStack() as stack:
            helper = stack.enter_context(Helper())
            self._pid = helper.start(os.getpid).result()
            start = helper.start(spark_jobs.guarded, spark_jobs.start, self._scratch)
            self._result(start, START_TIMEOUT_S)
            stack.pop_all()
        return helper

    def _result(self, job: Future[T], within_s: float) -> T:
        """The job's result. One that takes longer is killed with its process and the JVM: Python
        would wait for it before it ends."""
        try:
            return job.result(within_s)
        except TimeoutError:
            for pid in procs.tree(self._pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            raise TimeoutError(f"Spark took more than {within_s:.0f} s") from None

    def _cpu_s(self) -> float:
        return procs.cpu_s(procs.tree(self._pid))
