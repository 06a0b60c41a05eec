"""Client quotas: where a request's throttle time will be computed.

They are not implemented yet: a broker always uses `Unlimited`. (Replication throttles are:
`kavka.server.replica.replication_quotas`.) The throttle time is applied by
`Dispatcher.throttle_ms`, which puts it into the response, and `Connection._mute`, which stops
reading from the connection for that time.
"""

from __future__ import annotations

from typing import Protocol

from kavka.server.request.context import RequestContext


class Quotas(Protocol):
    """Called once per request, just before its response is encoded."""

    unlimited: bool
    """No quota is configured: `throttle_ms` need not be called."""

    def throttle_ms(self, context: RequestContext, request_bytes: int) -> int:
        """The throttle time (KIP-219): sent in `throttle_time_ms`, and the connection is muted for
        as long. 0: no throttling."""
        ...


class Unlimited:
    """No quota is configured."""

    unlimited = True

    def throttle_ms(self, context: RequestContext, request_bytes: int) -> int:
        return 0
