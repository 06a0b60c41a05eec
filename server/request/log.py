"""The request log: one line for each request, when the logger `kavka.request` is at DEBUG.

It must be turned on for itself, even if the root logger is at DEBUG, as it would be most of the
log. The line's format and names are Apache Kafka's (`kafka.request.logger`), but with the sizes of
request and response in place of their contents.
"""

from __future__ import annotations

import json
import logging
from functools import partial
from typing import Any, Final

from kavka.server.request.context import RequestContext
from kavka.wire.api import Api

NAME: Final = "kavka.request"

logger = logging.getLogger(NAME)
if logger.level == logging.NOTSET:
    logger.setLevel(logging.WARNING)


is_on: Final = partial(logger.isEnabledFor, logging.DEBUG)
"""Whether requests are to be logged; a partial, as it is called for each request."""


def log(
    api: Api, context: RequestContext, *, request_bytes: int, response_bytes: int, **times_ms: float
) -> None:
    """Log one completed request. Times are rounded to microseconds."""
    peer = context.peer
    entry: dict[str, Any] = {
        "requestHeader": {
            "requestApiKey": api.key,
            "requestApiVersion": context.version,
            "correlationId": context.correlation_id,
            "clientId": context.client_id,
            "requestApiKeyName": api.name,
        },
        "requestSizeBytes": request_bytes,
        "responseSizeBytes": response_bytes,
        "connection": peer.address,
        **{name: round(value, 3) for name, value in times_ms.items()},
        "principal": peer.principal,
        "listener": peer.listener,
    }
    logger.debug("Completed request:%s", json.dumps(entry, separators=(",", ":")))
