"""Failing disks; scenarios: log_directories.txt."""

from __future__ import annotations

from kavka.log.memfs import Fault
from kavka.wire.errors import ErrorCode as Code
from support.error_codes import error_code_of
from support.replicas import Hosting, append
from support.virtual import run_until_idle


async def test_the_files_of_a_failed_directory_are_closed(two_dirs: Hosting) -> None:
    replicas = [await two_dirs.lead("t", index) for index in range(4)]
    for replica in replicas:
        append(replica)
    two_dirs.fs.faults.append(Fault("pwrite", "t-0/00000000000000000000.log"))
    assert error_code_of(lambda: append(replicas[0])) == Code.KAFKA_STORAGE_ERROR
    await run_until_idle()
    assert [replica.offline for replica in replicas] == [True, False, True, False]
    assert all(segment.open_file is None for segment in replicas[2].log._segments)
