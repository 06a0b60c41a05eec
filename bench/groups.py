"""Many groups, a group of many members, and a million committed offsets that are loaded.

A broker of its own does it, on a directory of its own, so that the other rows are not touched.
Settings are the defaults: a new group waits some seconds for its first members.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from bench import frames, group_frames, raw
from bench.group_frames import Joined
from bench.peers import Peer
from bench.raw import Connection
from bench.run import Run

GROUPS: Final = 2000
MEMBERS: Final = 500
HEARTBEATS: Final = 40_000
ROUNDS: Final = 3
"""How often so many are sent: what else the machine does shows in one of them."""
WARM_HEARTBEATS: Final = 20_000
"""Unmeasured, to warm up a JVM, which compiles hot code."""
AT_ONCE: Final = 16
"""Heartbeats in flight, each on a connection of its own."""
BIG: Final = "a-group-of-many"
AGAIN: Final = 5
"""How often it is formed once more."""

TOPICS: Final = tuple(f"committed-{number}" for number in range(10))
PARTITIONS: Final = 100
OFFSETS: Final = 1_000_000
OFFSET_GROUPS: Final = tuple(
    f"offsets-{number:04}" for number in range(OFFSETS // (PARTITIONS * len(TOPICS)))
)
COMMITS_IN_FLIGHT: Final = 4

PROBE_EVERY_S: Final = 0.005
READY_TIMEOUT_S: Final = 180.0
SETTLE_S: Final = 1.0
NOT_YET: Final = (14, 15, 16)
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""


def stage(run: Run) -> None:
    """Groups that are held, heartbeats, a big group, and offsets after a restart."""
    with type(run.peer)(run.peer.home / "groups") as peer:
        peer.prepare()
        peer.start()
        raw.create_topic(peer.port, "warm")
        _await_coordinators(peer)
        # with this broker under its meters
        own = Run(peer, run.helper, run.spark, run.options, run.results)
        with ExitStack() as stack:
            _many(own, stack)
            _big(own, stack)
        _commit(own)
        run.add("groups.stop", peer.stop())
        _load(own)


def _await_coordinators(peer: Peer) -> None:
    """Have the topic of offsets made, and each of its partitions served."""
    first = group_frames.find_coordinator("first")
    raw.when_up(peer.port, lambda link: group_frames.found_error(link.ask(first)))
    for group in OFFSET_GROUPS:
        request = group_frames.offset_fetch(group, TOPICS[0])
        raw.when_up(peer.port, lambda link: group_frames.fetched_offset(link.ask(request))[0])  # noqa: B023 - asked at once


# -- members --------------------------------------------------------------------------------


def _many(run: Run, stack: ExitStack) -> None:
    """GROUPS groups of one member each, and their heartbeats."""
    names = [f"group-{number:04}" for number in range(GROUPS)]
    before_mb = run.peer.rss_mb()
    lines = [stack.enter_context(Connection(run.peer.port)) for _ in names]
    with run.meter("groups-formed") as meter:
        members = _formed(lines, names)
    run.add("groups.formed", meter.wall_s)
    time.sleep(SETTLE_S)
    run.add("groups.rss", run.peer.rss_mb() - before_mb)
    requests = list(map(group_frames.heartbeat, names, members))
    _send_heartbeats(lines, requests, WARM_HEARTBEATS)
    for _ in range(ROUNDS):
        with run.meter("heartbeat") as meter:
            _send_heartbeats(lines, requests, HEARTBEATS)
        run.add("heartbeat.cpu", meter.broker_s * 1e6 / HEARTBEATS)
        run.add("heartbeat.rate", HEARTBEATS / meter.wall_s)


def _formed(lines: Sequence[Connection], names: Sequence[str]) -> list[Joined]:
    """One member on each connection joins the group of that name, and is given an assignment."""
    for line, name in zip(lines, names, strict=True):
        line.socket.sendall(group_frames.join_group(name))
    return _synced(lines, names)


def _synced(lines: Sequence[Connection], names: Sequence[str]) -> list[Joined]:
    """Read the answers to JoinGroup, and have all members synced."""
    members = [group_frames.joined(line.read()) for line in lines]
    for line, name, member in zip(lines, names, members, strict=True):
        line.socket.sendall(group_frames.sync_group(name, member))
    for line in lines:
        group_frames.check(line.read(), "SyncGroup")
    return members


def _send_heartbeats(lines: Sequence[Connection], requests: Sequence[bytes], count: int) -> None:
    """So many heartbeats, AT_ONCE at a time, by all members in turn."""
    for start in range(0, count, AT_ONCE):
        chosen = [number % len(lines) for number in range(start, min(start + AT_ONCE, count))]
        for number in chosen:
            lines[number].socket.sendall(requests[number])
        for number in chosen:
            group_frames.check(lines[number].read(), "Heartbeat")


def _big(run: Run, stack: ExitStack) -> None:
    """One group of MEMBERS members: formed, and once more when its leader asks for it."""
    names = [BIG] * MEMBERS
    lines = [stack.enter_context(Connection(run.peer.port)) for _ in names]
    with run.meter("group-joined") as meter:
        members = _formed(lines, names)
    run.add("big-group.joined", meter.wall_s)
    leader = next(number for number, member in enumerate(members) if member.members)
    others = [number for number in range(MEMBERS) if number != leader]
    current = members
    for times in range(1, AGAIN + 1):
        with run.meter("group-again") as meter:
            lines[leader].socket.sendall(group_frames.join_group(BIG, members[leader].member_id))
            # one that joined before the leader has would get no error yet
            beat = group_frames.heartbeat(BIG, current[others[0]])
            while not group_frames.is_rebalancing(lines[others[0]].ask(beat)):
                continue
            for number in others:
                lines[number].socket.sendall(
                    group_frames.join_group(BIG, members[number].member_id)
                )
            again = _synced(lines, names)
        run.add("big-group.again", meter.wall_s)
        run.add("big-group.cpu", meter.broker_s)
        if {member.generation for member in again} != {members[0].generation + times}:
            raise RuntimeError("the members are not all of the next generation")
        current = again


# -- offsets --------------------------------------------------------------------------------


def _commit(run: Run) -> None:
    """OFFSETS offsets, a thousand with each request."""
    raw.create_topics(run.peer.port, TOPICS, PARTITIONS)
    for topic in TOPICS:
        raw.write_each(
            run.peer.port, topic, PARTITIONS, frames.Batch(1, 1).encode(), READY_TIMEOUT_S
        )
    offsets = {topic: range(PARTITIONS) for topic in TOPICS}
    with ExitStack() as stack, run.meter("offsets-committed") as meter:
        lines = [stack.enter_context(Connection(run.peer.port)) for _ in range(COMMITS_IN_FLIGHT)]
        for start in range(0, len(OFFSET_GROUPS), COMMITS_IN_FLIGHT):
            groups = OFFSET_GROUPS[start : start + COMMITS_IN_FLIGHT]
            for line, group in zip(lines, groups, strict=False):
                line.socket.sendall(group_frames.offset_commit(group, offsets))
            for line, _ in zip(lines, groups, strict=False):
                errors = group_frames.committed_errors(line.read())
                if any(errors) or len(errors) != OFFSETS // len(OFFSET_GROUPS):
                    raise RuntimeError(f"OffsetCommit answered errors {set(errors)}")
    run.add("offsets.committed", meter.wall_s)
    run.add("offsets.commit-cpu", meter.broker_s * 1e6 / OFFSETS)
    run.add("offsets.rss", run.peer.rss_mb())


def _load(run: Run) -> None:
    """A start on these offsets: until each group is answered, and what others wait meanwhile."""
    started_s = run.peer.start()
    hello = frames.api_versions()
    raw.when_up(run.peer.port, lambda link: link.ask(hello)[4])
    latencies_ns: list[int] = []
    with run.meter("offsets-loaded") as meter, Connection(run.peer.port) as line:
        _probe_until_loaded(line, Connection(run.peer.port), latencies_ns)
    run.add("offsets.start", time.monotonic() - started_s)
    run.add("offsets.loaded", meter.wall_s)
    run.add("offsets.load-cpu", meter.broker_s)
    run.add_latencies("offsets.load", latencies_ns)
    time.sleep(SETTLE_S)
    run.add("offsets-again.rss", run.peer.rss_mb())


def _probe_until_loaded(line: Connection, other: Connection, latencies_ns: list[int]) -> None:
    """Ask for each group in turn, again while it is being loaded; between that, probes.

    `latencies_ns` gets the times of the probes, which nobody's offsets matter to.
    """
    topic = TOPICS[-1]
    hello = frames.api_versions()
    waiting = list(OFFSET_GROUPS)
    end_s = time.monotonic() + READY_TIMEOUT_S
    with other:
        while waiting:
            began_ns = time.perf_counter_ns()
            other.ask(hello)
            latencies_ns.append(time.perf_counter_ns() - began_ns)
            while waiting and _is_loaded(line, waiting[-1], topic):
                waiting.pop()
            if waiting and time.monotonic() > end_s:
                raise RuntimeError(f"{waiting[-1]} is not loaded after {READY_TIMEOUT_S:.0f} s")
            time.sleep(PROBE_EVERY_S)


def _is_loaded(line: Connection, group: str, topic: str) -> bool:
    """RuntimeError when a loaded group has not what was committed."""
    error, offset = group_frames.fetched_offset(line.ask(group_frames.offset_fetch(group, topic)))
    if error in NOT_YET:
        return False
    if error or offset != 0:
        raise RuntimeError(f"OffsetFetch of {group} answered error {error}, offset {offset}")
    return True
