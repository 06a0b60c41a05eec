"""Settings of replica moves between log directories (KIP-113)."""

from __future__ import annotations

from typing import Final

from kavka.server.config.rows import Config, Importance, Mode
from kavka.server.config.validators import AtLeast
from kavka.server.config.value_types import LONG_MAX, Type

MOVE_ROWS: Final = (
    Config(
        "num.replica.alter.log.dirs.threads",
        Type.INT,
        None,
        "How many replicas are copied at a time from one log directory to another; as many as "
        "there are log directories when not set.",
        None,
        Importance.HIGH,
        field="num_replica_alter_log_dirs_threads",
    ),
    Config(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        Type.LONG,
        LONG_MAX,
        "How many bytes a second are copied, all replicas together, that move from one log "
        "directory to another.",
        AtLeast(0),
        Importance.MEDIUM,
        Mode.CLUSTER_WIDE,
        field="replica_alter_log_dirs_io_max_bytes_per_second",
        internal=True,
    ),
)
