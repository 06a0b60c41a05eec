"""Clients that do what no well client does: brokers have to see through them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

from cluster_faults.cluster import WITHIN_S, FaultyCluster
from cluster_faults.transfers import MONEY
from kavka.wire.errors import ErrorCode
from support.ports import HOST
from support.raw import RawConnection
from support.transactional import (
    GROUP_TYPE,
    TRANSACTION_TYPE,
    Answer,
    Asks,
    Refused,
    TransactionalProducer,
    play,
)
from support.wait import eventually

ZOMBIE: Final = "zombie"
LEFT_OPEN_MS: Final = 3000
"""How long the transaction may be open that nobody ends."""

JOIN_VERSION: Final = 5
SESSION_MS: Final = 6000
REBALANCE_MS: Final = 30_000


class Routed:
    """Asks whom a transactional producer has to ask: coordinator or leader."""

    def __init__(self, cluster: FaultyCluster, transactional_id: str, partition: int) -> None:
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._partition = partition

    def request(self, api: str, version: int, **values: Any) -> Answer:
        """One, on a connection of its own."""
        with RawConnection(HOST, self._port(api)) as connection:
            return connection.request(api, version, **values)

    def _port(self, api: str) -> int:
        members = self._cluster.members
        if api == "Produce":
            return members[self._cluster.leader(MONEY, self._partition)].port
        if api == "FindCoordinator":
            return next(iter(members.values())).port
        return coordinator(self._cluster, self._transactional_id, TRANSACTION_TYPE)


def coordinator(cluster: FaultyCluster, key: str, key_type: int) -> int:
    """The port of a group's coordinator, or of a transactional id's."""
    anyone = next(iter(cluster.members.values())).port

    def found() -> int | None:
        with RawConnection(HOST, anyone) as connection:
            answer = connection.request("FindCoordinator", 2, key=key, key_type=key_type)
        return int(answer["port"]) if answer["error_code"] == ErrorCode.NONE else None

    return eventually(found, within_s=WITHIN_S, what=f"{key} has a coordinator")


def stale_producer(cluster: FaultyCluster, partition: int, protocol: int) -> list[str]:
    """One that another has taken the transactional id from goes on; then one leaves its transaction
    open. What was not refused. Of what they write nobody may see anything (`money`)."""
    asks = Routed(cluster, ZOMBIE, partition)
    old = TransactionalProducer(ZOMBIE, protocol, MONEY)
    for script in (old.find(), old.init(), old.add([partition])):
        play(asks, script)
    play(asks, old.write(partition, [b"of a zombie, before"]))
    new = TransactionalProducer(ZOMBIE, protocol, MONEY, timeout_ms=LEFT_OPEN_MS)
    play(asks, new.init())
    found = [*accepted(asks, old, partition)]
    play(asks, new.add([partition]))
    play(asks, new.write(partition, [b"left open"]))
    return found


def accepted(asks: Asks, stale: TransactionalProducer, partition: int) -> Iterator[str]:
    """What a producer with a stale epoch was allowed to do."""
    scripts = {
        "AddPartitionsToTxn": stale.add([partition]),  # with protocol 2 there is nothing to ask
        "Produce": stale.write(partition, [b"of a zombie, after"]),
        "EndTxn": stale.end(commit=True),
    }
    for api, script in scripts.items():
        if api == "AddPartitionsToTxn" and stale.protocol == 2:
            continue
        try:
            play(asks, script)
        except Refused:
            continue
        yield f"I4 zombie: {api} with a stale epoch was accepted"


def never_syncs(cluster: FaultyCluster, group: str, topic: str) -> str:
    """Join a group, and do nothing more; the id of that member."""
    port = coordinator(cluster, group, GROUP_TYPE)
    name = topic.encode()
    metadata = struct.pack(f">hih{len(name)}si", 0, 1, len(name), name, -1)
    values: dict[str, Any] = {
        "group_id": group,
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [
            {"name": assignor, "metadata": metadata} for assignor in ("range", "roundrobin")
        ],
    }
    with RawConnection(HOST, port) as connection:
        first = connection.request("JoinGroup", JOIN_VERSION, **values)
        assert first["error_code"] == ErrorCode.MEMBER_ID_REQUIRED, first
        values["member_id"] = first["member_id"]
        joined = connection.request("JoinGroup", JOIN_VERSION, **values)
    assert joined["error_code"] == ErrorCode.NONE, joined
    return str(joined["member_id"])
