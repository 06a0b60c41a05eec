"""Transactions by kafka-transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from admin.begun import FORCED, MISSING, OPEN, OVER, PARTITION
from admin.cells import cells
from admin.java_tools import CLIENT, run
from admin.place import Place
from support import kafka_transactions
from support.java_tools import Tools

Returned = Any
does = CLIENT.does


def printed_rows(tools: Tools, place: Place, *options: str) -> list[dict[str, str]]:
    lines = run(tools, place, kafka_transactions.TOOL, *options)
    return kafka_transactions.rows("\n".join(lines))


@cells
def listed(tools: Tools, place: Place, *options: str) -> Returned:
    rows = printed_rows(tools, place, "list", *options)
    own = [row for row in rows if row["TransactionalId"].startswith(f"{place.prefix}-")]
    return [{**row, "ProducerId": "<one>"} for row in own]


def described(label: str) -> Callable[[Tools, Place], Returned]:
    return lambda tools, place: printed_rows(
        tools, place, "describe", f"--transactional-id={place.topic(label)}"
    )


@cells
def of_partition(tools: Tools, place: Place, order: str, *options: str) -> Returned:
    where = f"--topic={place.topic('data')}", f"--partition={PARTITION}"
    return printed_rows(tools, place, order, *where, *options)


does("list transactions")(listed())
does("list transactions that take long")(
    lambda tools, place: (
        listed("--duration-filter=0")(tools, place),
        listed("--duration-filter=3600000")(tools, place),
    )
)
does("list transactions by a pattern")(listed("--transactional-id-pattern=.*o[pv]e.*"))
does("describe a transaction")(described(OPEN))
does("describe a transaction that is over")(described(OVER))
does("describe a missing transaction")(described(MISSING))
does("describe producers in transactions")(of_partition("describe-producers"))
does("find transactions that hang")(of_partition("find-hanging"))
does("abort a transaction")(
    lambda tools, place: (
        of_partition("abort", "--start-offset=0")(tools, place),
        of_partition("describe-producers")(tools, place),
    )
)
does("abort a missing transaction")(of_partition("abort", "--start-offset=77"))
does("end a transaction by force")(
    lambda tools, place: printed_rows(
        tools, place, "forceTerminateTransaction", f"--transactionalId={place.topic(FORCED)}"
    )
)
