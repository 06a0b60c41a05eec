"""The resource usage of this process, from Linux's `/proc`."""

from __future__ import annotations

from typing import Final, NamedTuple

from kavka.log.fs import FileSystem

_TICKS_PER_S: Final = 100
"""USER_HZ: the unit of CPU times in /proc."""

_STATUS: Final = "/proc/self/status"


class Usage(NamedTuple):
    """The resources that the process uses, and its limit of open files."""

    cpu_s: float
    resident_bytes: int
    virtual_bytes: int
    open_files: int
    open_files_max: float
    disk_read_bytes: int
    disk_write_bytes: int


def usage(fs: FileSystem) -> Usage | None:
    """The current usage; None on a system without `/proc`."""
    try:
        times = fs.read_bytes("/proc/self/stat").rpartition(b")")[2].split()
        status = _fields(fs.read_bytes(_STATUS))
        disk = _fields(fs.read_bytes("/proc/self/io"))
        limits = fs.read_bytes("/proc/self/limits")
        open_files = len(fs.list_dir("/proc/self/fd"))
    except OSError:
        return None
    return Usage(
        cpu_s=(int(times[11]) + int(times[12])) / _TICKS_PER_S,
        resident_bytes=status.get(b"VmRSS", 0) * 1024,
        virtual_bytes=status.get(b"VmSize", 0) * 1024,
        open_files=open_files,
        open_files_max=_soft_limit(limits, b"Max open files"),
        disk_read_bytes=disk.get(b"read_bytes", 0),
        disk_write_bytes=disk.get(b"write_bytes", 0),
    )


def _fields(lines: bytes) -> dict[bytes, int]:
    """The lines `name: number ...`."""
    found = {}
    for line in lines.splitlines():
        name, _, rest = line.partition(b":")
        values = rest.split()
        if values and values[0].isdigit():
            found[name] = int(values[0])
    return found


def _soft_limit(lines: bytes, name: bytes) -> float:
    for line in lines.splitlines():
        if line.startswith(name):
            soft = line[len(name) :].split()[0]
            return float("inf") if soft == b"unlimited" else float(soft)
    return float("inf")
