"""The one place where requests are throttled."""

from __future__ import annotations

from typing import Protocol

from kavka.server.request.context import RequestContext


class Quotas(Protocol):
    """Asked once a request, just before its answer is written."""

    unlimited: bool
    """Nobody has a quota: it need not be asked."""

    def throttle_ms(self, context: RequestContext, request_bytes: int) -> int:
        """How long the client must be quiet (KIP-219): told to it in `throttle_time_ms`, and the
        connection is muted for as long. 0: not at all."""
        ...


class Unlimited:
    """No quota is configured."""

    unlimited = True

    def throttle_ms(self, context: RequestContext, request_bytes: int) -> int:
        return 0
