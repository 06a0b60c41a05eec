"""Consume, transform, produce by every stock client: each record once, whichever process is killed.

TRANSACTION_RECORDS (12,000; `make transactions` sets 200,000) and TRANSACTION_KILLS (2; there 10),
how often the broker is killed, set the size; TRANSACTION_SEED replays a run's moments.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from support.broker import StartBroker, broker_kind
from support.oracle import ApacheKafka
from support.transactions.clients import BROKER_SETTINGS, CLIENTS, TransactionClient
from support.transactions.scenario import Plan, play

RECORDS = int(os.environ.get("TRANSACTION_RECORDS", "12000"))
KILLS = int(os.environ.get("TRANSACTION_KILLS", "2"))
SEED = int(os.environ.get("TRANSACTION_SEED") or random.SystemRandom().randrange(2**32))


@pytest.mark.timeout(300 + 60 * KILLS)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_each_record_is_transformed_once_under_kills(
    start_broker: StartBroker, client: TransactionClient, tmp_path: Path
) -> None:
    print(f"TRANSACTION_SEED={SEED} TRANSACTION_RECORDS={RECORDS} TRANSACTION_KILLS={KILLS}")
    client.start()  # what it needs is installed before the broker's time is taken
    plan = Plan(
        RECORDS,
        # Apache Kafka itself loses transactions when it is killed alone.
        broker_kills=0 if broker_kind() is ApacheKafka else KILLS,
        instance_kills=max(1, KILLS // 2),
        superseded=max(1, KILLS // 5),
    )
    play(start_broker(**BROKER_SETTINGS), client, tmp_path, plan, random.Random(SEED))
