"""The request handlers, one module per API, named as in `kavka.wire.apis`.

A handler is a plain function `(broker, context, request) -> result`. It authorizes the request,
calls one part of the broker, maps the results to partitions and returns the response; or an
awaitable, only if it must wait. It handles no bytes and no files, and checks the version only
where the response differs.

Imported here are those that the first Produce after a start may need; the others are lazy imports
(see `kavka.server.runtime.lazy_imports`).
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
