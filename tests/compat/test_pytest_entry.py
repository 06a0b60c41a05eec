"""`pytest compat_tests --bootstrap HOST:PORT`: a test for each cell."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from compat.faults import setting
from compat.planting import planted
from kavka.compat_tests.broker import own
from support.paths import ROOT
from support.ports import HOST, free_port


async def pytest_said(tmp_path: Path, bootstrap: str, chosen: str) -> tuple[int, str]:
    """The exit code, and what it printed."""
    words = ["-m", "pytest", "compat_tests", "-p", "no:cacheprovider", f"--basetemp={tmp_path}/t"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *words, "--bootstrap", bootstrap, "-k", chosen),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode or 0, output.decode()


async def test_cells_pass_fail_and_are_skipped_as_tests(tmp_path: Path) -> None:
    async with own() as kavka:
        host, _, port = kavka.bootstrap.rpartition(":")
        fault = setting("metadata", "")
        async with planted((host, int(port)), "OffsetFetch", fault) as proxy:
            chosen = (
                "kafka-python-keys or kafka-python-commit-metadata or kafka-python-broker-restart"
            )
            code, output = await pytest_said(tmp_path, f"{HOST}:{proxy.port}", chosen)
    assert code == 1, output
    assert "1 failed, 1 passed, 1 skipped" in output, output
    assert "test_it_works[kafka-python-commit-metadata]" in output
    assert "OffsetFetch): Mismatch" in output
    assert "the suite can't restart this broker" in output


async def test_a_broker_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    code, output = await pytest_said(tmp_path, f"{HOST}:{free_port()}", "kafka-python-keys")
    assert code == 1
    assert "no broker answers" in output, output
