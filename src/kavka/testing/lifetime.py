"""`with` and `async with`: at the end what was started is closed; BrokerFailed if it had failed
before."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class BrokerFailed(Exception):
    """The broker has stopped after a fatal error; its log (logger `kavka`) says why."""

    def __init__(self) -> None:
        super().__init__("the broker has stopped after a fatal error; see the logger 'kavka'")


class Closing(ABC):
    """Started at the beginning of a `with` block, and closed at its end."""

    @abstractmethod
    def start(self) -> Self:
        """Start it."""

    @abstractmethod
    def close(self) -> None:
        """End it, also after a start that failed. BrokerFailed."""

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except BrokerFailed as failure:
            if error is None:
                raise
            error.add_note(str(failure))  # which is likely to be why


class AsyncClosing(ABC):
    """As `Closing`: started at the beginning of an `async with` block, and closed at its end."""

    @abstractmethod
    async def start(self) -> Self:
        """Start it."""

    @abstractmethod
    async def close(self) -> None:
        """End it, also after a start that failed. BrokerFailed."""

    async def __aenter__(self) -> Self:
        try:
            return await self.start()
        except BaseException:
            await self.close()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.close()
        except BrokerFailed as failure:
            if error is None:
                raise
            error.add_note(str(failure))  # which is likely to be why
