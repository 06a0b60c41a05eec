"""The table of metrics."""

from __future__ import annotations

from typing import Final

from kavka.server.monitoring.metrics.cleaner_rows import CLEANER_ROWS
from kavka.server.monitoring.metrics.client_rows import CLIENT_ROWS
from kavka.server.monitoring.metrics.group_rows import GROUP_ROWS, LAG_ROWS
from kavka.server.monitoring.metrics.log_rows import LOG_ROWS
from kavka.server.monitoring.metrics.network_rows import NETWORK_ROWS
from kavka.server.monitoring.metrics.own_rows import OWN_ROWS
from kavka.server.monitoring.metrics.row import Metric
from kavka.server.monitoring.metrics.server_rows import (
    BROKER_ROWS,
    PARTITION_ROWS,
    REPLICA_ROWS,
    THROTTLE_ROWS,
    TOPIC_ROWS,
    WAITING_ROWS,
)
from kavka.server.monitoring.metrics.transaction_rows import TRANSACTION_ROWS

TABLE: Final[tuple[Metric, ...]] = (
    *TOPIC_ROWS,
    *NETWORK_ROWS,
    *REPLICA_ROWS,
    *THROTTLE_ROWS,
    *WAITING_ROWS,
    *BROKER_ROWS,
    *LOG_ROWS,
    *CLEANER_ROWS,
    *GROUP_ROWS,
    *LAG_ROWS,
    *TRANSACTION_ROWS,
    *PARTITION_ROWS,
    *CLIENT_ROWS,
    *OWN_ROWS,
)
"""Broker-wide rows first; each has its own name."""
