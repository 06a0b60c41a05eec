"""A run: what the stages of one broker, or of one cluster, share, and what they found."""

from __future__ import annotations

import math
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

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
    cluster_bytes: int
    """Values in each bulk run of a cluster."""
    catch_up_bytes: int
    """What a follower with an empty disk has to fetch."""
    kills: int
    """Of each kind, in the stages of fail-over, of Kavka's brokers; and of Apache Kafka's."""
    apache_kills: int


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

    def note_worst(self, key: str, of: str) -> None:
        """Let `key` have the largest of the readings of another row, until now."""
        self.values[key] = [max(self.values[of])]

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


class Readings(ABC):
    """Something that is up and measured: notes what stages read, and who used the cores."""

    def __init__(self, helper: Helper, options: Options, results: Results) -> None:
        self.helper = helper
        self.options = options
        self.results = results
        self.pooled: dict[str, list[int]] = {}
        """Latencies in ns whose quantiles are taken over all rounds together."""
        self._patience_s = options.quiet_wait_s

    @property
    @abstractmethod
    def pids(self) -> Sequence[int]:
        """The processes that are measured, each with all that descends from it."""

    @property
    @abstractmethod
    def home(self) -> Path:
        """Where they keep their data."""

    @abstractmethod
    def alive(self) -> bool:
        """Whether all of them still run."""

    @abstractmethod
    def output_tail(self) -> str:
        """The last that they printed."""

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

    @contextmanager
    def meter(self, stage: str) -> Iterator[Meter]:
        """Measure CPU over a `with` block and note who used the cores."""
        with Meter(*self.pids) as meter:
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
            with Meter(*self.pids) as meter:
                time.sleep(QUIET_SAMPLE_S)
            if meter.others < QUIET_CORES:
                return
            self._patience_s -= meter.wall_s

    def warm_pages(self, size_bytes: int) -> None:
        """See `machine.write_pages`; nothing when the command line says so."""
        if self.options.warm_pages:
            machine.write_pages(self.home, size_bytes)


class Run(Readings):
    """A peer that is up, with what a stage needs to measure it."""

    def __init__(
        self,
        peer: Peer,
        helper: Helper,
        spark: SparkProcess,
        options: Options,
        results: Results,
    ) -> None:
        super().__init__(helper, options, results)
        self.peer = peer
        self.spark = spark
        self.kept: dict[str, str] = {}
        """Topics that one stage fills and the same stage reads again in its next round."""
        self._topics = 0

    @property
    def pids(self) -> Sequence[int]:
        return (self.peer.pid,)

    @property
    def home(self) -> Path:
        return self.peer.home

    def alive(self) -> bool:
        return self.peer.alive()

    def output_tail(self) -> str:
        return self.peer.output_tail()

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


R = TypeVar("R", bound=Readings)


class Stage(NamedTuple, Generic[R]):
    """A named step. Steps that `repeat` and stand together run in turn, round after round, so that
    a disturbance of some seconds falls on all of them and not on every run of one."""

    name: str
    act: Callable[[R], None]
    repeat: bool = False


def quantile(values: Sequence[int], share: float) -> int:
    """The smallest value that at least `share` of all do not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]


def _rounded(value: Any) -> Any:
    if not isinstance(value, float) or value == 0:
        return value
    return round(value, max(0, 4 - math.floor(math.log10(abs(value)))))
