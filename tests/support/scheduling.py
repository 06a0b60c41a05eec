"""Which tests a worker of pytest-xdist takes at once: those of a file, and all those of Spark."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

from support.short_form import id_of

SHARE_A_PROCESS = ("spark/",)
"""Directories whose tests share what takes long to start: a JVM of Spark runs twice as fast once it
is warm, and there is one in each worker that has a test of it."""


class Scheduling(LoadFileScheduling):  # type: ignore[misc]  # the library has no types
    """As `--dist=loadfile`, but with all tests of some directories in one worker."""

    def _split_scope(self, nodeid: str) -> str:
        for directory in SHARE_A_PROCESS:
            if id_of(nodeid).startswith(directory):
                return directory
        file: str = super()._split_scope(nodeid)
        return file
