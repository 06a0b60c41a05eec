"""What comes of going to where a broker tells clients to come to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kavka.tools.doctor.advertised import Way, judge_way
from kavka.tools.doctor.asks_ports import Connected, Resolved
from kavka.tools.doctor.findings import Level
from kavka.tools.doctor.port_protocol import PortProtocol, Reply

HERE, THERE, OTHER = "127.0.0.1", "192.0.2.7", "192.0.2.8"
RIGHT = Way(
    1,
    "broker.test",
    9092,
    Resolved([THERE]),
    tried=[Connected(THERE, 0.5)],
    reply=Reply(PortProtocol.KAFKA, b""),
    cluster_id="c",
    is_this_broker=True,
    asked_from=[OTHER],
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (Level.OK, "")),
        ({"resolved": Resolved([HERE])}, (Level.WARNING, "loopback")),
        ({"resolved": Resolved([HERE]), "asked_from": [HERE]}, (Level.OK, "")),
        ({"resolved": Resolved([], "unknown")}, (Level.ERROR, "unresolvable")),
        ({"tried": [Connected(THERE, 0, "late", is_late=True)]}, (Level.ERROR, "no-answer")),
        ({"tried": [Connected(THERE, 0, "no", is_refused=True)]}, (Level.ERROR, "refused")),
        (
            {"tried": [Connected(OTHER, 0, "late", is_late=True), Connected(THERE, 0.5)]},
            (Level.OK, ""),
        ),
        ({"reply": Reply(PortProtocol.SILENT, b"")}, (Level.ERROR, "silent")),
        ({"reply": Reply(PortProtocol.HTTP, b"")}, (Level.ERROR, "not-kafka")),
        ({"reply": Reply(PortProtocol.TLS, b"")}, (Level.ERROR, "not-kafka")),
        ({"reply": Reply(PortProtocol.TLS, b""), "expects_tls": True}, (Level.OK, "")),
        ({"cluster_id": "d"}, (Level.ERROR, "other-cluster")),
        ({"is_this_broker": False}, (Level.ERROR, "other-broker")),
        ({"failure": "timed out"}, (Level.ERROR, "fails")),
    ],
)
def test_each_fault_has_its_name(changes: Mapping[str, Any], expected: tuple[Level, str]) -> None:
    found = judge_way(RIGHT._replace(**changes), "c")
    assert (found.level, found.problem) == expected
    assert found.subject == "broker 1"
