"""An authorizer that refuses what a test says, and allows the rest."""

from __future__ import annotations

from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.request.context import RequestContext


class Denied:
    """Refuses operations, on everything or on (operation, resource name)."""

    def __init__(self, *denied: Operation | tuple[Operation, str]) -> None:
        self._denied = denied

    def allows(
        self, context: RequestContext, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        """Whether nothing of it is refused."""
        return operation not in self._denied and (operation, name) not in self._denied
