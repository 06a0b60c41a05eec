"""What a client does when the broker throttles it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from kavka.compat_tests.broker import Broker
from kavka.compat_tests.errors import Mismatch, NotHere
from kavka.compat_tests.records import Partition, Record
from kavka.compat_tests.scenario import Scenario, Trial, equal, read, stored
from kavka.tools.admin.client_quotas import (
    AlterClientQuotasRequest,
    ChangedEntity,
    NamedEntity,
    Operation,
)
from kavka.tools.admin.cluster_client import check_answer
from kavka.tools.admin.unserved_apis import ALTER_CLIENT_QUOTAS

RATE: Final = 20_000
"""Bytes a second; a broker measures them over ten seconds or so (`quota.window.num`), and throttles
a client that has had more than ten times as many in them."""

RECORDS: Final = 24
RECORD_BYTES: Final = 10_000
"""Together 40 KB more than may pass at once: two seconds."""

TOGETHER: Final = 3
"""Records that are sent at once. A batch that is larger than what the quota lets pass in its whole
time is never read from Apache Kafka."""

THROTTLED_S: Final = 1.0
"""That a client is kept waiting at least."""

WITHIN_MS: Final = 60_000


async def run_throttled(trial: Trial) -> None:
    topic = await trial.topic()
    chance = random.Random(1)  # some clients compress by default, which does not help here
    records = [Record(chance.randbytes(RECORD_BYTES)) for _ in range(RECORDS)]
    last = Record(b"behind them")
    loop = asyncio.get_running_loop()
    client_id = trial.name("client")
    async with _quota(trial.broker, client_id):
        with trial.step("write more than the quota lets pass", "Produce"):
            producer = await trial.driver(client_id=client_id)
            await producer.ask("producer")
            began_s = loop.time()
            placed = []
            for first in range(0, RECORDS, TOGETHER):
                placed += await stored(producer, topic, records[first : first + TOGETHER])
            placed += await stored(producer, topic, [last])  # the quota lets it wait
            _must_wait(loop.time() - began_s)
            equal([place.offset for place in placed], [*range(RECORDS + 1)], "offsets")
        with trial.step("read more than the quota lets pass", "Fetch"):
            reader = await trial.driver(client_id=client_id)
            await reader.ask("consumer")
            await reader.assign({Partition(topic, 0): 0})
            began_s = loop.time()
            found = await read(reader, RECORDS + 1, WITHIN_MS)
            _must_wait(loop.time() - began_s)
            equal(
                [record.value for record in found],
                [record.value for record in [*records, last]],
                "values",
            )


def _must_wait(took_s: float) -> None:
    if took_s < THROTTLED_S:
        raise Mismatch(f"done after {took_s:.1f} s: the quota has not held the client back")


@asynccontextmanager
async def _quota(broker: Broker, client_id: str) -> AsyncIterator[None]:
    """Of a client, while this is open. NotHere."""
    if not await broker.admin.serves(ALTER_CLIENT_QUOTAS):
        raise NotHere(f"the broker has no quotas ({ALTER_CLIENT_QUOTAS.name})")
    await _set(broker, client_id, remove=False)
    try:
        yield
    finally:
        await _set(broker, client_id, remove=True)


async def _set(broker: Broker, client_id: str, *, remove: bool) -> None:
    names = ("producer_byte_rate", "consumer_byte_rate")
    operations = [Operation(name, float(RATE), remove) for name in names]
    entity = ChangedEntity([NamedEntity("client-id", client_id)], operations)
    response = await broker.admin.ask(ALTER_CLIENT_QUOTAS, AlterClientQuotasRequest([entity]))
    for entry in response.entries:
        check_answer(entry.error_code, entry.error_message)


ALL: Final = (
    Scenario(
        "throttled",
        "A producer and a consumer that a quota holds back",
        run_throttled,
        frozenset({"produce", "consume", "group"}),  # those with groups stay connected
    ),
)
