"""A broker's replica manager for scenario files: the controller's requests in, responses out.

After each command comes what has changed of the replicas: `t-0 /data: leader, epoch 2, end 3, high
watermark 3`. The broker has id 1; each batch that is appended has three records.
"""

from __future__ import annotations

import re
import uuid
from typing import Any

from kavka.log.memfs import Fault
from kavka.server.cluster.control_messages import LeaderAndIsrResponse, StopReplicaResponse
from kavka.server.config.dynamic_rules import Dynamic
from kavka.server.replica.replica import Replica
from kavka.wire.errors import ApiError, ErrorCode
from support.async_scenarios import AsyncMachine
from support.controller_text import partition
from support.logs import epoch_entries
from support.replicas import DATA, TOPIC_ID, Hosting, append, leading, metadata_of, stopping
from support.scenarios import Command


class ReplicaMachine(AsyncMachine):
    """`ReplicaManager` and `ControllerRequests`, on log directories in memory."""

    async def start(self) -> None:
        self._dirs = [DATA]
        self._states: dict[tuple[str, int], str] = {}
        self._host(Hosting())

    def _host(self, hosting: Hosting) -> None:
        def failed() -> None:
            online = hosting.logs.online_directories
            self.out.append(f"online directories: {' '.join(online) or 'none'}")

        self._hosting = hosting
        hosting.manager.failures.on_failure = failed

    async def finish(self) -> None:
        for replica in self._hosting.manager:
            replica.partition.check_invariants()
        assert not self._hosting.tasks.failures

    async def after(self) -> None:
        found = {replica.key: _state(replica) for replica in self._hosting.manager}
        for key in sorted(self._states | found):
            text = found.get(key, "not hosted")
            if text != self._states.get(key):
                self.out.append(f"{key[0]}-{key[1]} {text}")
        self._states = found

    # The controller's requests

    async def do_hosted(self, command: Command) -> None:
        """As `lead`, before the scenario begins; `batches` are in each log then."""
        await self._lead(command)
        for word in command.words * command.number("batches"):
            append(self._find(word))
        await self._hosting.manager.flusher.wait_idle()
        await self.after()
        self.out.clear()

    async def do_lead(self, command: Command) -> None:
        """LeaderAndIsr for partitions of a topic; the leader is this broker unless it says so."""
        await self._lead(command)

    async def _lead(self, command: Command) -> None:
        request = leading(
            *_partitions(command),
            leader=command.number("leader", 1),
            epoch=command.number("epoch"),
            isr=tuple(map(int, command.list("isr", command.text("leader", "1")))),
            replicas=tuple(map(int, command.list("replicas", "1,2"))),
            controller_epoch=command.number("controller", 1),
            topic_id=uuid.UUID(int=77) if command.text("id") == "other" else TOPIC_ID,
            new=command.text("new") != "no",
        )
        self._report(await self._hosting.port.leader_and_isr(request))

    async def do_stop(self, command: Command) -> None:
        request = stopping(
            *_partitions(command),
            epoch=command.number("epoch", -2),
            delete=command.text("delete") != "no",
            controller_epoch=command.number("controller", 1),
        )
        self._report(await self._hosting.port.stop_replica(request))

    def _report(self, response: LeaderAndIsrResponse | StopReplicaResponse) -> None:
        """The errors of a response, if there are any."""
        errors = [f"{tp} {code.name}" for tp, code in response.partition_errors.items()]
        if response.error_code is not ErrorCode.NONE:
            errors.append(response.error_code.name)
        if errors:
            self.out.append(f"{type(response).__name__}: {', '.join(errors)}")

    async def do_metadata(self, command: Command) -> None:
        """UpdateMetadata; then the topics that clients see."""
        epoch = command.number("controller", 1)
        await self._hosting.port.update_metadata(
            metadata_of(*_partitions(command), controller_epoch=epoch)
        )
        self.out.append(f"topics {' '.join(self._hosting.metadata.image.topics)}")

    async def do_close(self, command: Command) -> None:
        self._hosting.port.close()

    # Records and settings

    async def do_append(self, command: Command) -> None:
        """A batch, perhaps of a producer such as 7:0:0: id, epoch and first sequence number."""
        replica = self._find(command.words[0])
        producer: Any = tuple(map(int, command.text("producer", "-1:-1:-1").split(":")))
        try:
            self.out.append(f"offset {append(replica, producer)}")
        except ApiError as error:
            self.out.append(error.code.name)

    async def do_wait(self, command: Command) -> None:
        """A request in the purgatory that waits for a change of a partition."""
        key = partition(command.words[0])
        await self.request(f"waiting for {key}", self._wait(key), str)

    async def _wait(self, key: tuple[str, int]) -> str:
        await self._hosting.purgatory.wait([key], lambda: True, 60)
        return "woken"

    async def do_configs(self, command: Command) -> None:
        """Configs of a topic; or the broker's defaults, if there is no topic."""
        for key in command.options:
            command.get(key)
        if command.words:
            self._hosting.overrides.change(command.words[0], dict(command.options))
        else:
            live = self._hosting.live
            live.change(live.now.with_dynamic(Dynamic(dict(command.options), {})))

    async def do_settings(self, command: Command) -> None:
        for replica in self._hosting.manager:
            found = replica.log.settings
            self.out.append(
                f"{'-'.join(map(str, replica.key))} max.message.bytes {found.max_message_bytes} "
                f"segment.bytes {found.segment_bytes}"
            )

    async def do_epochs(self, command: Command) -> None:
        """The leader epochs of a log, and where they begin."""
        entries = epoch_entries(self._find(command.words[0]).log)
        self.out.append(" ".join(f"{epoch}@{start}" for epoch, start in entries))

    async def do_leader(self, command: Command) -> None:
        """What clients of these partitions get."""
        for word in command.words:
            try:
                self._hosting.manager.leader(*partition(word))
                self.out.append(f"{word}: leader")
            except ApiError as error:
                self.out.append(f"{word}: {error.code.name}")

    async def do_check_epoch(self, command: Command) -> None:
        """Leader epochs that clients send."""
        for word in command.words[1:]:
            try:
                self._find(command.words[0]).check_epoch(int(word))
                self.out.append(f"{word}: NONE")
            except ApiError as error:
                self.out.append(f"{word}: {error.code.name}")

    def _find(self, name: str) -> Replica:
        replica = self._hosting.manager.find(*partition(name))
        assert replica is not None
        return replica

    # Disks and restarts

    async def do_fault(self, command: Command) -> None:
        """The next call of this kind on files with this name fails."""
        op, name = command.words
        self._hosting.fs.faults.append(Fault(op, name, times=command.number("times", 1)))

    async def do_storage_failed(self, command: Command) -> None:
        self._hosting.manager.failures.storage_failed(
            self._find(command.words[0]), OSError("again")
        )

    async def do_directory_failed(self, command: Command) -> None:
        self._hosting.manager.failures.directory_failed(command.words[0], OSError("again"))

    async def do_hold(self, command: Command) -> None:
        """Jobs such as FlushPlan.run wait."""
        self._hosting.jobs.hold(command.words[0])

    async def do_release(self, command: Command) -> None:
        self._hosting.jobs.release()
        await self._hosting.manager.flusher.wait_idle()

    async def do_delete_records(self, command: Command) -> None:
        self._find(command.words[0]).log.advance_start(int(command.words[1]))

    async def do_checkpoint(self, command: Command) -> None:
        """Write the checkpoints; with these high watermarks if there are any."""
        high_watermarks = _offsets(command.words) or self._hosting.manager.high_watermarks()
        self._hosting.logs.checkpoint(high_watermarks).run()

    async def do_restart(self, command: Command) -> None:
        """After SIGKILL, or a power cut; with the high watermarks of a checkpoint."""
        self._dirs = command.list("dirs") or self._dirs
        faults = list(self._hosting.fs.faults)
        if "power" in command.words:
            self._hosting.fs.crash()
        else:
            self._hosting.fs.kill()
        self._hosting.fs.faults = faults
        self._states = {}
        self._host(Hosting(self._hosting.fs, _offsets(command.list("watermarks")), self._dirs))

    async def do_dirs(self, command: Command) -> None:
        """The partitions' directories, and what the broker knows of the log directories."""
        for path in self._dirs:
            names = [
                re.sub(r"\.[0-9a-f]{32}", "", name) for name in self._hosting.fs.list_dir(path)
            ]
            logs = [name for name in names if re.search(r"-\d+(-delete)?$", name)]
            failed = " failed" * (path in self._hosting.logs.failed_directories)
            self.out.append(f"{path}{failed}: {' '.join(logs) or 'no logs'}")


def _partitions(command: Command) -> tuple[Any, ...]:
    """The topic, and numbers of partitions: all are of the same topic."""
    found = [partition(word) for word in command.words]
    return found[0].topic, *(place.partition for place in found)


def _offsets(words: list[str]) -> dict[tuple[str, int], int]:
    """High watermarks such as t-0:3."""
    pairs = [word.split(":") for word in words]
    return {partition(name): int(offset) for name, offset in pairs}


def _state(replica: Replica) -> str:
    state, log = replica.partition, replica.log
    role = "leader" if state.is_leader else f"follower of {state.leader}"
    start = f"start {log.start_offset}, " * bool(log.start_offset)
    flushed = f", flushed {state.flushed_end}" * bool(state.flushed_end)
    if replica.offline:
        return f"{log.directory.rpartition('/')[0]}: offline{flushed}"
    return (
        f"{log.directory.rpartition('/')[0]}: {role}, epoch {state.leader_epoch}, {start}"
        f"end {log.end_offset}, high watermark {state.high_watermark}{flushed}"
    )
