"""The record of the log directories that this broker uses, in the coordination tree.

It is kept outside of the directories themselves, so that a start notices that one of them is lost:
see `kavka.log.claiming`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from kavka.log.dir_names import MetaProperties, new_directory_id
from kavka.log.manager import LogManager
from kavka.seams import Random
from kavka.server.coordination.broker_registration import ensure_paths
from kavka.zktree import paths
from kavka.zktree.api import Coordination, NoNode

logger = logging.getLogger(__name__)


async def claim_directories(
    logs: LogManager,
    coordination: Coordination,
    meta: MetaProperties,
    *,
    declared_lost: Collection[str],
    random: Random,
) -> None:
    """Claim the log directories for this broker, except those that are lost, and record their
    ids; see `LogManager.claim`. `declared_lost`: ids in `kavka.lost.log.dirs`. StorageError if none
    can be used."""
    path = paths.log_directories(meta.broker_id)
    recorded = await _recorded(coordination, path)
    known = recorded
    if known is None:
        known = await _suspected(logs, coordination, meta.broker_id, random)
    record = logs.claim(meta, known, declared_lost)
    for directory_id in declared_lost:
        if directory_id in record:
            logger.warning(
                "kavka.lost.log.dirs names %s, which is not lost: it is %s",
                directory_id,
                record[directory_id],
            )
        elif directory_id in known:
            logger.warning(
                "the log directory that was at %s (directory.id=%s) is declared lost; partitions "
                "that were in it begin empty unless there is another replica",
                known[directory_id],
                directory_id,
            )
        else:
            logger.warning(
                "kavka.lost.log.dirs names %s, which no log directory of this broker has as its "
                "id: it has no effect",
                directory_id,
            )
    if record != recorded:
        data = paths.encode_log_directories(record)
        if recorded is None:
            await ensure_paths(coordination, {path: data})
        else:
            await coordination.set(path, data)


async def _recorded(coordination: Coordination, path: str) -> dict[str, str] | None:
    try:
        return paths.decode_log_directories((await coordination.get(path)).data)
    except NoNode:
        return None


async def _suspected(
    logs: LogManager, coordination: Coordination, broker_id: int, random: Random
) -> dict[str, str]:
    """Without a record, as after an import from Apache Kafka, or from before there was one:
    directories without an owner count as lost if a partition of this broker has no log."""
    unclaimed = logs.unclaimed_directories
    if not unclaimed:
        return {}
    found = logs.logs_found()
    for topic in await coordination.children(paths.TOPICS):
        try:
            assignment = paths.decode_topic((await coordination.get(paths.topic(topic))).data)
        except NoNode:
            continue
        for index, replicas in assignment.replicas.items():
            if broker_id not in replicas or (topic, index) in found:
                continue
            if await coordination.exists(paths.partition_state(topic, index)) is not None:
                return {new_directory_id(random): path for path in unclaimed}
    return {}
