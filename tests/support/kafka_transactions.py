"""What `kafka-transactions` prints, in a form in which two brokers can be compared."""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import Final

TOOL: Final = "org.apache.kafka.tools.TransactionsCommand"

NOW: Final = re.compile(r"\b1[789]\d{11}\b")
"""A time of these years, in ms."""


def rows(text: str) -> list[dict[str, str]]:
    """The rows of a table by their columns: producers by the order of their ids, times of now and
    durations without their values."""
    if not text.strip():
        return []
    columns, *lines = (line.split() for line in text.splitlines())
    found = [dict(zip_longest(columns, line, fillvalue="")) for line in lines]
    ids = sorted({int(row["ProducerId"]) for row in found})
    for row in found:
        row["ProducerId"] = f"<producer {ids.index(int(row['ProducerId'])) + 1}>"
        row["TopicPartitions"] = ",".join(sorted(row.get("TopicPartitions", "").split(",")))
        for column, value in row.items():
            if NOW.fullmatch(value) or "Duration" in column:
                row[column] = "<now>"
    return sorted(found, key=str)
