"""Small applications on faststream, as its users write them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from brokers import for_librdkafka, tls_context, wanted_security
from faststream import AckPolicy, FastStream
from faststream.security import BaseSecurity, SASLPlaintext, SASLScram256, SASLScram512
from pydantic import BaseModel

BATCH_RECORDS = 50
LOGINS = {
    "PLAIN": SASLPlaintext,
    "SCRAM-SHA-256": SASLScram256,
    "SCRAM-SHA-512": SASLScram512,
}


class Order(BaseModel):
    customer: str
    number: int
    amount: int


class Bill(BaseModel):
    customer: str
    number: int
    total: int


def bill_of(order: Order) -> Bill:
    return Bill(customer=order.customer, number=order.number, total=order.amount * 2)


def security(library: str) -> dict[str, Any]:
    """Arguments of its brokers, if there is TLS or a login; on librdkafka, what TLS needs is given
    in that one's settings."""
    requested = wanted_security()
    if not requested:
        return {}
    context = tls_context()
    shared: dict[str, Any] = {"use_ssl": context is not None}
    more = {}
    if library == "confluent":
        settings = for_librdkafka()
        more = {"config": {name: settings[name] for name in settings if name.startswith("ssl.")}}
    else:
        shared["ssl_context"] = context
    if "mechanism" not in requested:
        return {"security": BaseSecurity(**shared), **more}
    login = LOGINS[requested["mechanism"]]
    return {"security": login(requested["user"], requested["password"], **shared), **more}


def application(
    bootstrap: str, library: str, topics: tuple[str, str], group: str, count: Callable[[int], None]
) -> FastStream:
    """Reads orders and writes a bill for each, with its key. It commits what it has handled.

    `library`: `kafka` or `confluent`, faststream's packages; `count` hears how many orders came at
    once.
    """
    package: Any = importlib.import_module(f"faststream.{library}")
    broker = package.KafkaBroker(bootstrap, **security(library))

    @broker.subscriber(
        topics[0], group_id=group, auto_offset_reset="earliest", ack_policy=AckPolicy.ACK
    )
    @broker.publisher(topics[1])
    async def on_order(order: Order) -> Any:
        count(1)
        return package.KafkaResponse(bill_of(order), key=order.customer.encode())

    return FastStream(broker)


def application_of_batches(
    bootstrap: str, library: str, topics: tuple[str, str], group: str, count: Callable[[int], None]
) -> FastStream:
    """The same with many orders at once, whose bills share batches too."""
    package: Any = importlib.import_module(f"faststream.{library}")
    broker = package.KafkaBroker(bootstrap, **security(library))

    @broker.subscriber(
        topics[0],
        group_id=group,
        auto_offset_reset="earliest",
        ack_policy=AckPolicy.ACK,
        batch=True,
        max_records=BATCH_RECORDS,
    )
    @broker.publisher(topics[1], batch=True)
    async def on_orders(orders: list[Order]) -> list[Bill]:
        count(len(orders))
        return [bill_of(order) for order in orders]

    return FastStream(broker)
