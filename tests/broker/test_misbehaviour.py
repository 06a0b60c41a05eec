"""Produce requests that are doubled, reordered and lost on their way leave no duplicate or gap.

MISBEHAVIOUR_TIMES (6; `make misbehaviour` sets 200) says how often everything that can happen to
a request has to happen, MISBEHAVIOUR_SEED sets the dice.
"""

from __future__ import annotations

import os
import random

import pytest

from support.broker import StartBroker
from support.clients.idempotent import Writer
from support.misbehaviour.producers import (
    IN_FLIGHT_MAX,
    Confluent,
    FranzGo,
    Java,
    KafkaPython,
    NotIdempotent,
)
from support.misbehaviour.story import Story

TIMES = int(os.environ.get("MISBEHAVIOUR_TIMES", "6"))
SEED = int(os.environ.get("MISBEHAVIOUR_SEED") or random.SystemRandom().randrange(2**32))


def story(start_broker: StartBroker, *kinds: type[Writer]) -> Story:
    """Of some producers."""
    print(f"MISBEHAVIOUR_SEED={SEED} MISBEHAVIOUR_TIMES={TIMES}")
    return Story(start_broker, kinds, SEED)


@pytest.mark.timeout(300 + 10 * TIMES)
def test_idempotent_producers_leave_no_duplicate_and_no_gap(start_broker: StartBroker) -> None:
    for program in (Java, FranzGo):
        program.command()  # what is needed is there before the broker's time is taken
    with story(start_broker, Confluent, KafkaPython, Java, FranzGo) as played:
        played.play(TIMES)
        complaints = played.complaints()
        print(played.summary())
    assert not complaints, complaints[:20]
    assert played.weather.in_flight_max >= IN_FLIGHT_MAX


@pytest.mark.timeout(300)
def test_without_idempotence_duplicates_are_found(start_broker: StartBroker) -> None:
    with story(start_broker, NotIdempotent) as played:
        played.play(2)
        complaints = played.complaints()
        print(played.summary())
    assert any("is a duplicate" in complaint for complaint in complaints), complaints[:20]
