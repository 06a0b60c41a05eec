"""What Kavka does with each API: one module an API, named as in `kavka.wire.apis`.

A handler is a plain function `(broker, context, request) -> answer`. It authorises, asks one
owner, maps the results to partitions and returns; it returns an awaitable only where it must
wait. It touches no bytes and no files, and asks for the version only where the answer differs.

Imported here are those that the first write after a start may need; the others are later (see
`kavka.server.runtime.lazy_imports`).
"""

from kavka.server.handlers import (
    api_versions,
    create_topics,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    produce,
)

__all__ = [
    "api_versions",
    "create_topics",
    "fetch",
    "find_coordinator",
    "init_producer_id",
    "list_offsets",
    "metadata",
    "produce",
]
