"""A broker's machine: its disk, its process, and their faults."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from kavka.log.errors import StorageError
from kavka.log.memfs import MemFs
from kavka.server.config import BrokerSettings
from kavka.server.coordination.embedded import open_embedded
from kavka.server.instance import Instance
from kavka.server.runtime.tasks import LoopTasks
from kavka.server.start_checks import StartError
from kavka.zktree.api import CoordinationError, NodeExists, OpenCoordination
from sim.coordination import session_opener
from sim.ensemble import Ensemble
from sim.jobs import SimJobs, Speed
from sim.loggers import SimLoggers
from sim.loop import Process, SimClock, SimLoop
from sim.network import SimNetwork
from sim.trace import Trace

DATA = "/data"
PORT = 9092


DISK_FAILURES = (StorageError, OSError, CoordinationError)
"""What a start fails with that needs the disk, or a session that has expired."""

REGISTERED_RETRY_S = 3.0
"""After a start that failed as the session of an earlier process is still alive, the next one."""


class Killed(Exception):
    """A process was killed before it had started."""


class Machine:
    """One broker, which can die and start again on the same disk."""

    def __init__(
        self,
        loop: SimLoop,
        network: SimNetwork,
        chance: random.Random,
        trace: Trace,
        *,
        name: str,
        settings: Sequence[str] = (),
        speed: Speed | None = None,
        offset_ms: int = 0,
        drift: float = 0.0,
        ensemble: Ensemble | None = None,
        session_timeout_s: float = 18.0,
        in_cluster: bool = False,
    ) -> None:
        """Without an ensemble the broker's coordination service is embedded. `in_cluster`: the
        broker may have others beside it."""
        self.name = name
        self.address = (name, PORT)
        self.settings = list(settings)
        if in_cluster:
            self.settings.append("zookeeper.connect=zookeeper:2181")
        self.fs = MemFs()
        self.lives = 0
        self.failures = 0
        """How often the broker could not go on: its disk had failed, or its session expired."""
        self._failing: asyncio.Task[None] | None = None
        self._loop = loop
        self._network = network
        self._chance = chance
        self._trace = trace
        self._speed = speed or Speed()
        self._offset_ms = offset_ms
        self._drift = drift
        self.stuck_until_s = 0.0
        """Until then its disk does nothing."""
        self.cut_off_until_s = 0.0
        """Until then it and ZooKeeper do not reach each other."""
        self._ensemble = ensemble
        self._session_timeout_s = session_timeout_s
        self.rotten: set[str] = set()
        """How the names of files end in which a bit has flipped."""
        self.process: Process | None = None
        self._dead: list[Process] = []
        """Kept, with their tasks, until the world ends."""
        self.instance: Instance | None = None

    @property
    def is_up(self) -> bool:
        """Whether the process lives."""
        return self.process is not None

    @property
    def held_up_until_s(self) -> float:
        """Until then requests may wait without end."""
        return max(self.stuck_until_s, self.cut_off_until_s)

    def launch(self) -> None:
        """Begin a start."""
        assert self.process is None
        self.lives += 1
        self._trace.add(self.name, f"start {self.lives}")
        self._failing = None
        self._started: asyncio.Future[asyncio.Task[None]] = self._loop.create_future()
        process = self.process = Process(
            self._loop,
            f"{self.name}.{self.lives}",
            offset_ms=self._offset_ms,
            drift=self._drift,
        )
        process.run(self._begin, process)

    def _begin(self, process: Process) -> None:
        clock = SimClock(process)
        self.fs.now_ms = clock.now_ms
        host, port = self.address
        overrides = [f"log.dirs={DATA}", f"listeners=PLAINTEXT://{host}:{port}", *self.settings]
        self.instance = Instance(
            BrokerSettings.load(environ={}, overrides=overrides),
            clock=clock,
            tasks=LoopTasks(self._loop),
            jobs=SimJobs(
                self._loop,
                process,
                self.fs,
                self._chance,
                self._speed,
                stuck_until_s=lambda: self.stuck_until_s,
            ),
            random=random.Random(self._chance.getrandbits(64)),
            fs=self.fs,
            network=self._network.host(process, self.name),
            on_failure=self._on_failure,
            loggers=SimLoggers(),
            open_coordination=self._opener(process),
        )
        started, starting = self._started, self._loop.create_task(self.instance.start())
        starting.add_done_callback(started.set_result)
        starting.add_done_callback(self._start_ended)

    def _opener(self, process: Process) -> OpenCoordination:
        if self._ensemble is None:
            return open_embedded
        return session_opener(self._ensemble, process, self.name, self._session_timeout_s)

    def _start_ended(self, starting: asyncio.Task[None]) -> None:
        failure = starting.exception()
        if _may_pass(failure):
            self._on_failure(again_after_s=REGISTERED_RETRY_S * _is_registered(failure))

    async def started(self) -> None:
        """Wait until a start has succeeded. A failure is raised unless it may pass; `Killed` when
        it was."""
        while True:
            starting = await asyncio.shield(self._started)
            if not _may_pass(starting.exception()):
                starting.result()
                return
            await self.end_of_failure()

    def _on_failure(self, again_after_s: float = 0.0) -> None:
        """It can't go on: it stops, and the process ends, as `kavka start` does; what watches
        over it starts it again. A broker may say so more than once."""
        if self._failing is not None:
            return
        self._trace.add(self.name, "has failed")
        self.failures += 1
        self._failing = self._loop.world.spawn(
            self._fail(again_after_s), name="end of a failed broker"
        )

    async def _fail(self, again_after_s: float) -> None:
        await self._stop()
        if again_after_s:
            await asyncio.sleep(again_after_s)
        if not self.fs.faults and self.fs.capacity_bytes is None:
            self.launch()  # what failed was noticed late: the disk is well again

    async def end_of_failure(self) -> None:
        """If the broker has said that it can't go on: wait until its process has ended."""
        if self._failing is not None:
            await self._failing

    async def stop(self) -> None:
        """A clean stop, or as clean as the disk lets it be."""
        await self.end_of_failure()
        await self.started()
        await self._stop()

    async def _stop(self) -> None:
        process, instance = self.process, self.instance
        assert process is not None
        assert instance is not None
        self._trace.add(self.name, "stop")
        stopped = self._loop.create_future()
        task = process.run(self._loop.create_task, instance.stop())
        task.add_done_callback(stopped.set_result)
        try:
            (await stopped).result()
        except (StorageError, OSError) as failure:
            self._trace.add(self.name, f"stop failed: {failure}")
        self._end(silently=False)
        self.fs.kill()

    def set_clock(self, by_ms: int) -> None:
        """Its clock of the day jumps."""
        self._offset_ms += by_ms
        if self.process is not None:
            self.process.offset_ms += by_ms

    def flip_bit(self, suffix: str) -> None:
        """A bit of a file rots."""
        fs = self.fs
        files = [
            f"{DATA}/{name}/{file}"
            for name in fs.list_dir(DATA)
            if fs.is_dir(f"{DATA}/{name}")
            for file in fs.list_dir(f"{DATA}/{name}")
            if file.endswith(suffix) and fs.size(f"{DATA}/{name}/{file}")
        ]
        if files:
            path = self._chance.choice(files)
            bit = self._chance.randrange(8 * fs.size(path))
            self._trace.add(self.name, f"bit {bit} of {path} flips")
            self.rotten.add(suffix)
            fs.flip_bit(path, bit)

    def stories(self) -> list[str]:
        """What has become of each partition lately, as the broker knows it."""
        broker = None if self.instance is None else self.instance.broker
        if broker is None:
            return []
        return [
            f"{replica.key[0]}-{replica.key[1]}: {' | '.join(replica.partition.story)}; from "
            f"{replica.log.start_offset} to {replica.log.end_offset}, high watermark "
            f"{replica.partition.high_watermark}"
            for replica in broker.replicas
        ]

    def check_invariants(self) -> None:
        """AssertionError when what the broker knows contradicts itself."""
        broker = None if self.instance is None else self.instance.broker
        if broker is None:
            return
        for replica in broker.replicas:
            partition, log = replica.partition, replica.log
            partition.check_invariants()
            assert partition.high_watermark <= log.end_offset, replica.key
            assert log.start_offset <= log.end_offset, replica.key
            assert log.recovery_point <= log.end_offset, replica.key
            stable = log.last_stable_offset(partition.high_watermark)
            assert stable <= partition.high_watermark, replica.key

    def kill(self) -> None:
        """SIGKILL."""
        self._trace.add(self.name, "killed")
        self._end(silently=False)
        self.fs.kill()

    def cut_power(self) -> None:
        """The machine loses its power: what was not synced may be lost, whole or in part."""
        self._trace.add(self.name, "power cut")
        self._network.dark.add(self.name)
        self._end(silently=True)
        self.fs.crash(self._chance)

    def _end(self, *, silently: bool) -> None:
        process = self.process
        if self._failing is not None and self._failing is not asyncio.current_task(self._loop):
            self._failing.cancel()
        if process is None:
            return  # between two starts
        process.kill()
        self._network.end_process(process, silently=silently)
        if not self._started.done():
            self._started.set_exception(Killed())
            self._started.exception()  # it is no fault if nothing waits for it
        self._dead.append(process)
        self.process = self.instance = None


def _may_pass(failure: BaseException | None) -> bool:
    """Whether another start may succeed."""
    return isinstance(failure, DISK_FAILURES) or _is_registered(failure)


def _is_registered(failure: BaseException | None) -> bool:
    """Whether a start failed as an earlier process of the broker is registered still."""
    return isinstance(failure, StartError) and isinstance(failure.__cause__, NodeExists)
