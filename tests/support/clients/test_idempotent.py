"""What the idempotent writers make of a record that is acknowledged without its offset."""

from __future__ import annotations

from confluent_kafka import Message

from cluster_faults.writers import Recorder
from sim.history import UNKNOWN_OFFSET
from sim.history import History as Judged
from support.clients.idempotent import ConfluentWriter, History

OFFSET_INVALID = -1001
VALUE = b"a@0:0:"


def delivered_to(history: History) -> None:
    """As librdkafka reports a record whose response was lost, when a later batch was written."""
    writer = ConfluentWriter("localhost:1", "t", 1, history)
    writer._delivered(None, Message(topic="t", partition=0, offset=OFFSET_INVALID, value=VALUE))


def test_it_is_acknowledged_somewhere() -> None:
    judged = Judged(lambda: 0.0)
    delivered_to(Recorder(judged))
    assert judged.acknowledged == {VALUE: UNKNOWN_OFFSET}


def test_a_history_by_place_names_it() -> None:
    history = History()
    delivered_to(history)
    assert history.failures == [f"{VALUE!r} is acknowledged without its offset"]
