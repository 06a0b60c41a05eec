"""What may go wrong in a scenario."""

from __future__ import annotations

from kavka.compat_tests.records import Refusal


class Mismatch(Exception):
    """The broker, seen through the client, did something else than it should."""


class Refused(Exception):
    """A request to a driver got an error."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"{refusal.name}: {refusal.message}")
        self.refusal = refusal

    @property
    def name(self) -> str:
        """In the protocol, if the library tells it; else of the library's exception."""
        return self.refusal.name


class DriverFailed(Exception):
    """A driver could not be started, ended on its own, or did not answer in time."""


class NotHere(Exception):
    """The broker is not such that a scenario can be tried on it; the message says why."""


class Unavailable(Exception):
    """A client can't be tried on this machine; the message says what is missing."""
