"""One peer's run: what the stages share, and what they found."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from bench import machine, raw
from bench.helper import Helper
from bench.peers import Peer
from bench.procs import Meter
from bench.spark_process import SparkProcess

QUIET_CORES: Final = 0.2
QUIET_SAMPLE_S: Final = 1.0


@dataclass(frozen=True)
class Options:
    """What the command line decides."""

    rounds: int
    warm_pages: bool
    quiet_wait_s: float
    """How long a run may wait, in all, for the rest of the machine to be quiet."""
    spark_records: int


class LeftOut(Exception):
    """A stage cannot be run on this machine; the message says what is missing. No failure."""


@dataclass(frozen=True)
class Load:
    """Who used the cores during one measurement; `wall_s` in seconds, the rest in cores."""

    stage: str
    wall_s: float
    broker: float
    client: float
    others: float
    stolen: float


@dataclass
class Results:
    """Every reading of one peer: row key -> one value a round."""

    peer: str
    values: dict[str, list[float]] = field(default_factory=dict)
    loads: list[Load] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def add(self, key: str, value: float) -> None:
        """Note one reading."""
        self.values.setdefault(key, []).append(value)

    def as_json(self) -> dict[str, Any]:
        """Plain data, figures rounded to what they are worth."""
        return {
            "values": {
                key: {"median": _rounded(statistics.median(all_)), "runs": [*map(_rounded, all_)]}
                for key, all_ in self.values.items()
            },
            "loads": [
                {key: _rounded(value) for key, value in asdict(load).items()} for load in self.loads
            ],
            "failures": self.failures,
            "left_out": self.left_out,
        }


class Run:
    """A peer that is up, with what a stage needs to measure it."""

    def __init__(
        self,
        peer: Peer,
        helper: Helper,
        spark: SparkProcess,
        options: Options,
        results: Results,
    ) -> None:
        self.peer = peer
        self.helper = helper
        self.spark = spark
        self.options = options
        self.results = results
        self.pooled: dict[str, list[int]] = {}
        """Latencies in ns whose quantiles are taken over all rounds together."""
        self.kept: dict[str, str] = {}
        """Topics that one stage fills and the same stage reads again in its next round."""
        self._topics = 0
        self._patience_s = options.quiet_wait_s

    def add(self, key: str, value: float) -> None:
        """Note one reading for the row `key`."""
        self.results.add(key, value)

    def add_latencies(self, key: str, latencies_ns: Sequence[int]) -> None:
        """Note p50, p99 and p99.9 in ms for the rows below `key`."""
        for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999)):
            self.add(f"{key}.{name}", quantile(latencies_ns, share) / 1e6)

    def pool(self, key: str, latencies_ns: Sequence[int]) -> None:
        """Keep latencies until the end of the run; see `pooled`."""
        self.pooled.setdefault(key, []).extend(latencies_ns)

    def new_topic(self, stage: str, partitions: int = 1) -> str:
        """A topic of its own, with one record in each partition."""
        self._topics += 1
        name = f"{stage}-{self._topics}"
        raw.create_topic(self.peer.port, name, partitions)
        return name

    @contextmanager
    def topic(self, stage: str, partitions: int = 1) -> Iterator[str]:
        """As `new_topic`, for the length of a `with` block."""
        name = self.new_topic(stage, partitions)
        yield name
        raw.delete_topic(self.peer.port, name)

    @contextmanager
    def meter(self, stage: str) -> Iterator[Meter]:
        """Measure CPU over a `with` block and note who used the cores."""
        with Meter(self.peer.pid) as meter:
            yield meter
        wall_s = meter.wall_s
        load = Load(
            stage,
            wall_s,
            meter.broker_s / wall_s,
            meter.client_s / wall_s,
            meter.others,
            meter.stolen,
        )
        self.results.loads.append(load)
        self.add("machine.others", load.others)
        self.add("machine.stolen", load.stolen)

    def wait_quiet(self) -> None:
        """Wait until others use less than QUIET_CORES, as long as the run's patience lasts."""
        while self._patience_s > 0:
            with Meter(self.peer.pid) as meter:
                time.sleep(QUIET_SAMPLE_S)
            if meter.others < QUIET_CORES:
                return
            self._patience_s -= meter.wall_s

    def warm_pages(self, size_bytes: int) -> None:
        """See `machine.write_pages`; nothing when the command line says so."""
        if self.options.warm_pages:
            machine.write_pages(self.peer.home, size_bytes)


def quantile(values: Sequence[int], share: float) -> int:
    """The smallest value that at least `share` of all do not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]


def _rounded(value: Any) -> Any:
    if not isinstance(value, float) or value == 0:
        return value
    return round(value, max(0, 4 - math.floor(math.log10(abs(value)))))
