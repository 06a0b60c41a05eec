"""Consumers of every stock client in groups, through deaths of members and of the broker.

GROUP_ROUNDS (1; `make groups` sets 5) says how often all of it happens.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.broker import StartBroker, broker_kind
from support.groups.clients import BROKER_SETTINGS, GroupClient, clients_of
from support.groups.scenario import play

ROUNDS = int(os.environ.get("GROUP_ROUNDS", "1"))


@pytest.mark.timeout(240 + 120 * ROUNDS)
@pytest.mark.parametrize("client", clients_of(broker_kind()), ids=lambda client: client.name)
def test_every_record_is_processed_under_kills(
    start_broker: StartBroker, client: GroupClient, tmp_path: Path
) -> None:
    client.start()  # what it needs is installed before the broker's time is taken
    play(start_broker(**BROKER_SETTINGS), client, tmp_path, ROUNDS)
