"""Down-conversion: Fetch before version 4 gets message sets, converted from the log's batches.

Source and result are in memory meanwhile, so only few responses are converted at a time
(`BatchOpener.room`). The bytes read for one are bounded as for any Fetch; of tiny records, a
message set takes up to five times as much. Records are converted in slices, and big batches are
decompressed and compressed in threads.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from kavka.log.errors import StorageError
from kavka.log.reader import FileRange
from kavka.log.settings import LogSettings
from kavka.seams import Jobs, Pool
from kavka.server.broker import Broker
from kavka.server.replica import fetch_reading
from kavka.server.replica.fetch_reading import PartitionRead
from kavka.server.request.context import RequestContext
from kavka.server.runtime import cooperative
from kavka.wire.apis.fetch import PartitionResponse
from kavka.wire.compression import Bytes
from kavka.wire.down_conversion import Converted, down_convert
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps

logger = logging.getLogger(__name__)

READ_AT_ONCE_BYTES_MAX: Final = 1024 * 1024
"""Batches up to this size are read without a thread if they are cached; 0.5 ms."""

COPIED_BYTES_PER_STEP: Final = 1024 * 1024
"""Bytes of message sets before a pause; 0.5 ms."""

_TIMESTAMPS_SINCE: Final = 2


def check_readable(settings: LogSettings) -> None:
    """ApiError if the topic's settings do not allow down-conversion."""
    if settings.compression_type == "zstd":
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd for an old consumer")
    if not settings.message_downconversion_enable:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "conversion to old formats is disabled")


def magic_for(version: int) -> int:
    """The magic of message sets in responses of this version."""
    return 0 if version < _TIMESTAMPS_SINCE else 1


async def read_converted(
    broker: Broker, context: RequestContext, parts: Sequence[PartitionRead]
) -> dict[tuple[str, int], int]:
    """Read the parts' batches and put message sets into their responses. The caller must hold
    `BatchOpener.room`.

    If none of a part's batches can be in a message set (transaction markers), its response stays
    empty; the offset after them is returned, by partition.
    """
    skipped: dict[tuple[str, int], int] = {}
    made: list[tuple[PartitionRead, Converted]] = []
    magic = magic_for(context.version)
    for part in parts:
        if part.file_range is None:
            continue
        assert part.replica is not None, "only hosted partitions are read"
        await broker.tasks.sleep(0)  # each may take a millisecond, and there may be many
        try:
            converted = await _convert(broker, part, magic)
        except ApiError as error:
            topic, index = part.replica.key
            logger.warning("can't down-convert records of %s-%d: %s", topic, index, error)
            part.response = PartitionResponse(index, error.code)
        except (OSError, StorageError) as failure:
            fetch_reading.fail(part, failure)
        else:
            if converted.size:
                made.append((part, converted))
            elif converted.next_offset > part.requested.offset:
                skipped[part.replica.key] = converted.next_offset
    await _place(broker, context, made)
    return skipped


async def _convert(broker: Broker, part: PartitionRead, magic: int) -> Converted:
    assert part.file_range is not None, "there is something to read"
    batches = await _read(part.file_range, broker.jobs)
    steps = down_convert(batches, magic, part.requested.offset, part.bytes_max)
    return await cooperative.run_rest(broker.tasks, steps, jobs=broker.jobs)


async def _read(found: FileRange, jobs: Jobs) -> memoryview:
    view = memoryview(bytearray(found.length))
    at_once = found.length <= READ_AT_ONCE_BYTES_MAX
    size = found.file.read_cached(view, found.position) if at_once else 0
    if size != found.length:
        size = await jobs.run(Pool.READ, found.file.read_into, view, found.position)
    return view[:size]


async def _place(
    broker: Broker, context: RequestContext, made: Sequence[tuple[PartitionRead, Converted]]
) -> None:
    """Put big message sets into arenas, so that they count as an unsent response."""
    take = fetch_reading.room_for(sum(found.size for _, found in made), broker.arenas, context)
    for part, found in made:
        view = take(found.size)
        await cooperative.run_rest(broker.tasks, _fill(view, found.pieces), jobs=broker.jobs)
        part.response.records = view


def _fill(view: memoryview, pieces: list[Bytes]) -> Steps[None]:
    """Copy `pieces` into `view`, and free each that is copied."""
    at = since_pause = 0
    for number, piece in enumerate(pieces):
        pieces[number] = b""
        for start in range(0, len(piece), COPIED_BYTES_PER_STEP):
            part = memoryview(piece)[start : start + COPIED_BYTES_PER_STEP]
            view[at : at + len(part)] = part
            at += len(part)
            since_pause += len(part)
            if since_pause >= COPIED_BYTES_PER_STEP:
                since_pause = 0
                yield None
