"""How long clients wait when a broker dies: SIGKILL under load, until the next success of a stock
client with its default settings; and the same for a rolling restart."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from typing import Any, Final

from bench import frames, raw
from bench.clusters import BROKERS, ClusterRun
from bench.run import Stage
from bench.session import say
from bench.under_load import Client, Committing, Producing, Transacting, longest_gap_ns
from support.wait import eventually

SETTLED: Final = 20
"""Successes of a client before the broker is killed."""

SETTLED_WITHIN_S: Final = 60.0
CALM_S: Final = 0.5
"""How long a client works before the broker is killed, and between two restarts."""

RECOVERED_WITHIN_S: Final = 90.0
STOPPED_WITHIN_S: Final = 120.0
IN_SYNC_WITHIN_S: Final = 180.0
RETRY_S: Final = 0.02
OFFSETS: Final = "__consumer_offsets"
TRANSACTIONS: Final = "__transaction_state"


def leader(run: ClusterRun) -> None:
    """The leader dies, and another broker is the controller."""
    for victim in _victims(run, is_controller=False):
        _while_producing(run, "cluster-failover-leader", victim, leader=victim)


def leader_and_controller(run: ClusterRun) -> None:
    """The leader dies, which is the controller too."""
    for victim in _victims(run, is_controller=True):
        _while_producing(run, "cluster-failover-both", victim, leader=victim)


def follower(run: ClusterRun) -> None:
    """A follower dies; all replicas in sync have to acknowledge."""
    for victim in _victims(run, is_controller=False):
        other = next(broker_id for broker_id in BROKERS if broker_id != victim)
        _while_producing(run, "cluster-failover-follower", victim, leader=other)


def controller(run: ClusterRun) -> None:
    """The controller dies, and somebody wants to create a topic."""
    name = "cluster-failover-controller"
    for victim in _victims(run, is_controller=True):
        topic = run.name(name)
        with killed(run, victim) as killed_ns:
            errors = create_after_kill(run, topic, victim)
            _note(run, name, victim, time.monotonic_ns() - killed_ns, errors)
        run.ask(partial(run.admin.delete_topics, [topic]))


def group_coordinator(run: ClusterRun) -> None:
    """The coordinator of a group dies, whose member reads and commits."""
    name = "cluster-failover-group"
    for victim in _victims(run, is_controller=False):
        other = next(broker_id for broker_id in BROKERS if broker_id != victim)
        group = _coordinated(run, OFFSETS, name, victim, Committing, other)
        with run.topic(name, [other]) as topic, Producing(run.cluster.bootstrap, topic):
            _kill_under(run, name, victim, Committing(run.cluster.bootstrap, topic, group))


def transaction_coordinator(run: ClusterRun) -> None:
    """The coordinator of a transaction dies, and its producer commits."""
    name = "cluster-failover-transaction"
    for victim in _victims(run, is_controller=False):
        other = next(broker_id for broker_id in BROKERS if broker_id != victim)
        own = _coordinated(run, TRANSACTIONS, name, victim, Transacting, other)
        with run.topic(name, [other]) as topic:
            client = Transacting(run.cluster.bootstrap, topic, own)
            _kill_under(run, name, victim, client)
        run.add(f"{name}.successors", client.successors)


def rolling(run: ClusterRun) -> None:
    """All three are stopped and started again, one after the other, while a producer writes to a
    partition that each of them leads."""
    name = "cluster-rolling"
    with run.topic(name, BROKERS) as topic:
        with Producing(run.cluster.bootstrap, topic, len(BROKERS)) as client:
            _settle(client)
            for broker_id in BROKERS:
                time.sleep(CALM_S)
                run.member(broker_id).stop(within_s=STOPPED_WITHIN_S)
                run.member(broker_id).start()
                run.cluster.await_in_sync()
            time.sleep(CALM_S)
            client.history.first_after(time.monotonic_ns(), RECOVERED_WITHIN_S)
    run.add(f"{name}.gap", longest_gap_ns(client.history.done) / 1e9)
    run.add(f"{name}.errors", len(client.history.errors))


STAGES: Final[tuple[Stage[ClusterRun], ...]] = (
    Stage("cluster-failover-leader", leader),
    Stage("cluster-failover-both", leader_and_controller),
    Stage("cluster-failover-follower", follower),
    Stage("cluster-failover-controller", controller),
    Stage("cluster-failover-group", group_coordinator),
    Stage("cluster-failover-transaction", transaction_coordinator),
    Stage("cluster-rolling", rolling),
)


def _victims(run: ClusterRun, *, is_controller: bool) -> Iterator[int]:
    """Whom to kill, time after time; all is well with the cluster then."""
    for number in range(run.kills):
        run.cluster.await_in_sync()
        current = current_controller(run)
        others = [broker_id for broker_id in BROKERS if broker_id != current]
        yield current if is_controller else others[number % len(others)]


def current_controller(run: ClusterRun) -> int:
    def known() -> int | None:
        found: int = run.metadata().controller_id
        return found if found in BROKERS else None

    return eventually(known, within_s=RECOVERED_WITHIN_S, what="there is a controller")


def _while_producing(run: ClusterRun, name: str, victim: int, *, leader: int) -> None:
    with run.topic(name, [leader]) as topic:
        _kill_under(run, name, victim, Producing(run.cluster.bootstrap, topic))


def _kill_under(run: ClusterRun, name: str, victim: int, client: Client) -> None:
    """Kill a broker while a client works, and note when that has its next success."""
    with client:
        _settle(client)
        with killed(run, victim) as killed_ns:
            done = client.history.first_after(killed_ns, RECOVERED_WITHIN_S)
            _note(run, name, victim, done.ended_ns - killed_ns, client.history.errors)
    run.add(f"{name}.errors", len(client.history.errors))


def _settle(client: Client) -> None:
    for _ in range(SETTLED):
        client.history.first_after(time.monotonic_ns(), SETTLED_WITHIN_S)
    time.sleep(CALM_S)


@contextmanager
def killed(run: ClusterRun, victim: int, back_within_s: float = IN_SYNC_WITHIN_S) -> Iterator[int]:
    """A broker is dead, since a time in monotonic ns; behind the block it is back and in sync."""
    member = run.member(victim)
    killed_ns = time.monotonic_ns()
    member.kill()
    try:
        yield killed_ns
    finally:
        member.start()
        run.cluster.await_in_sync(back_within_s)


def _note(run: ClusterRun, name: str, victim: int, waited_ns: int, errors: Sequence[str]) -> None:
    """A reading of one kill, and the worst until now."""
    counts = Counter(errors)
    say(run.results.peer, f"  broker {victim} killed: {waited_ns / 1e9:.2f} s {dict(counts) or ''}")
    run.add(f"{name}.after", waited_ns / 1e9)
    run.results.note_worst(f"{name}.worst", f"{name}.after")


def create_after_kill(run: ClusterRun, topic: str, victim: int) -> Sequence[str]:
    """Create a topic on the brokers that are left, trying until it is done; what failed before.

    By raw sockets: confluent-kafka's administrator goes on to look for the broker that was the
    controller, and does not ask who is now.
    """
    others = [broker_id for broker_id in BROKERS if broker_id != victim]
    deadline_s = time.monotonic() + RECOVERED_WITHIN_S
    errors: list[str] = []
    for broker_id in cycle(others):
        error = _try_to_create(run, topic, broker_id, others)
        if not error:
            return errors
        errors.append(error)
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"no topic can be created: {error}")
        time.sleep(RETRY_S)
    raise AssertionError("brokers are left")


def _try_to_create(run: ClusterRun, topic: str, broker_id: int, left: Sequence[int]) -> str:
    """What failed; empty when the topic is there."""
    with raw.Connection(run.port(broker_id)) as connection:
        controller = frames.controller_id(connection.ask(frames.cluster_metadata()))
    if controller not in left:
        return f"broker {controller} is the controller"
    request = frames.create_topic(topic, 1, replicas=len(left))
    with raw.Connection(run.port(controller)) as connection:
        error = frames.create_topic_error(connection.ask(request))
    return "" if error in (0, frames.TOPIC_ALREADY_EXISTS) else f"error {error}"


def _coordinated(
    run: ClusterRun,
    internal: str,
    name: str,
    coordinator: int,
    kind: Callable[[str, str, str], Client],
    leader: int,
) -> str:
    """A name of a group, or a transactional id, that a broker coordinates: the partition of the
    internal topic that it belongs to is led by that broker."""
    if internal not in run.metadata().topics:
        with run.topic(name, [leader]) as topic:
            with kind(run.cluster.bootstrap, topic, run.name(name)) as client:
                _settle(client)  # it has been made now
        run.cluster.await_in_sync()
    partitions: Any = run.metadata().topics[internal].partitions
    while True:
        found = run.name(name)
        if partitions[partition_of(found, len(partitions))].leader == coordinator:
            return found


def partition_of(name: str, partitions: int) -> int:
    """Of an internal topic, to which a group or a transactional id belongs: by Java's hash."""
    hashed = 0
    for unit in _utf16(name):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    if hashed >= 1 << 31:
        hashed -= 1 << 32
    return (0 if hashed == -(1 << 31) else abs(hashed)) % partitions


def _utf16(name: str) -> Sequence[int]:
    encoded = name.encode("utf-16-be")
    return [int.from_bytes(encoded[at : at + 2], "big") for at in range(0, len(encoded), 2)]
