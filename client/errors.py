"""What ends a request without a response, and why a broker can't be asked."""

from __future__ import annotations


class Disconnected(ConnectionError):
    """The connection ended first: whether the request took effect is not known."""


class TimedOut(Disconnected):
    """No response came in time; the connection was closed, as later responses would come late."""


class NotConnected(ConnectionError):
    """The request was not sent, as there is no connection."""


class ConnectFailed(NotConnected):
    """A connection could not be opened."""

    def __init__(self, message: str, *, refused: bool) -> None:
        super().__init__(message)
        self.refused = refused
        """Whether the host answered that nothing listens there, rather than not at all."""


class NotLetIn(NotConnected):
    """The two sides do not trust each other: it makes no sense to try again."""


class UnsupportedVersion(Exception):
    """The broker and this client have no version of an API in common."""
