"""What a process tree, and the whole machine, used: CPU seconds and resident memory (Linux).

CPU comes from the processes' own CPU clocks, which count nanoseconds and keep the time of threads
that have ended; the machine's comes from /proc/stat, in ticks of 10 ms.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")

_CPU_CLOCK_OF_PROCESS: Final = 2
"""Low bits of a Linux clock id: scheduler time of a whole thread group (`clock_getcpuclockid`)."""


def tree(pid: int) -> list[int]:
    """`pid` and everything that descends from it, as of now."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            fields = _stat_fields(int(entry))
            if fields:
                children[int(fields[1])].append(int(entry))
    found, todo = [], [pid]
    while todo:
        each = todo.pop()
        found.append(each)
        todo += children[each]
    return found


def running(pid: int) -> bool:
    """False for a process that is gone, and for one that only waits to be reaped."""
    fields = _stat_fields(pid)
    return bool(fields) and fields[0] != "Z"


def cpu_s(pids: list[int]) -> float:
    """User and system seconds of these processes; one that is gone counts nothing."""
    total = 0.0
    for pid in pids:
        try:
            total += time.clock_gettime((~pid << 3) | _CPU_CLOCK_OF_PROCESS)
        except OSError:
            continue
    return total


def rss_mb(pids: list[int]) -> float:
    """Resident memory of these processes in MB (10**6 bytes); shared pages count in each."""
    total_kib = 0
    for pid in pids:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        total_kib += sum(
            int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")
        )
    return total_kib * 1024 / 1e6


class MachineCpu(NamedTuple):
    """CPU seconds of all cores since boot: doing work, and taken by the hypervisor."""

    busy_s: float
    stolen_s: float


def machine_cpu() -> MachineCpu:
    """What /proc/stat says now."""
    with open("/proc/stat") as stat:
        user, nice, system, _, _, irq, softirq, steal, *_ = map(int, stat.readline().split()[1:])
    return MachineCpu((user + nice + system + irq + softirq) / TICKS_PER_S, steal / TICKS_PER_S)


def own_cpu_s() -> float:
    """CPU seconds of this process and of its children that have been waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Meter:
    """CPU of a broker (or of several), of us, and of everything else, over a `with` block.

    `broker_s`, `client_s` and `wall_s` are seconds; `others` and `stolen` are cores. A client that
    runs in a child process adds its seconds by `add_client` inside the block.
    """

    def __init__(self, *pids: int) -> None:
        self._pids = pids
        self.broker_s = 0.0
        self.client_s = 0.0
        self.wall_s = 0.0
        self.others = 0.0
        self.stolen = 0.0

    def __enter__(self) -> Meter:
        self._machine, self._own_s = machine_cpu(), own_cpu_s()
        self._broker_s = cpu_s(self._processes())
        self._start_s = time.monotonic()
        return self

    def add_client(self, seconds: float) -> None:
        """Count CPU seconds of a child that has not been waited for as the client's."""
        self.client_s += seconds

    def add_broker(self, pid: int) -> None:
        """Count a process that began inside the block as the broker's."""
        self._pids = (*self._pids, pid)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.wall_s = time.monotonic() - self._start_s
        self.broker_s = cpu_s(self._processes()) - self._broker_s
        self.client_s += own_cpu_s() - self._own_s
        machine = machine_cpu()
        busy_s = machine.busy_s - self._machine.busy_s
        self.others = max(0.0, busy_s - self.broker_s - self.client_s) / self.wall_s
        self.stolen = (machine.stolen_s - self._machine.stolen_s) / self.wall_s

    def _processes(self) -> list[int]:
        return [each for pid in self._pids for each in tree(pid)]


def _stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name: state, parent, ...; empty when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return stat[stat.rindex(")") + 2 :].split()
