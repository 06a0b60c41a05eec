"""Whether a broker's address accepts connections: how a broker's death is noticed before its
session ends.

A broker listens before it registers, so connections to its address are refused only when its
process has ended, and then at once. (One of Apache Kafka listens a moment later, and counts as live
from then on.) An address that can't be reached, or does not answer, proves nothing: such a broker
counts as dead only when its session has expired.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from kavka.client.broker_client import BrokerClient
from kavka.client.errors import ConnectFailed
from kavka.seams import Tasks

RETRY_S: Final = 0.1
"""Between two attempts to connect."""

FIRST_CONTACT_S: Final = 1.0
"""How long a controller waits at most, at the beginning of its term, to learn which of the
registered brokers are there: those that neither accept nor refuse connections count as live."""

Known: TypeAlias = asyncio.Future[None]


class Reachability:
    """Keeps a connection to a broker open, and reports when a new one is refused or accepted again;
    until `close`."""

    def __init__(
        self,
        client: BrokerClient,
        on_change: Callable[[bool], object],
        tasks: Tasks,
    ) -> None:
        """`on_change` is called with False when connections are refused, and with True when they
        are accepted again."""
        self._client = client
        self._on_change = on_change
        self._tasks = tasks
        self.known: Known = tasks.future()
        """Done once it is known whether connections are accepted or refused."""
        self._is_refused = False
        self._task = tasks.spawn(self._watch(), name=f"connection to {client.address}")

    def close(self) -> None:
        """Report nothing more. The client stays open."""
        self._task.cancel()

    async def _watch(self) -> None:
        while True:
            try:
                connection = await self._client.connection()
            except ConnectionError as failure:
                if isinstance(failure, ConnectFailed) and failure.refused:
                    self._change(is_refused=True)
            else:
                self._change(is_refused=False)
                await asyncio.shield(connection.lost)
                continue
            await self._tasks.sleep(RETRY_S)

    def _change(self, *, is_refused: bool) -> None:
        if is_refused != self._is_refused:
            self._is_refused = is_refused
            self._on_change(not is_refused)
        if not self.known.done():
            self.known.set_result(None)


async def wait_until_known(contacts: Sequence[Known], tasks: Tasks) -> None:
    """Wait until of each broker it is known whether it accepts connections, `FIRST_CONTACT_S` at
    most: then the others are given up."""

    def give_up() -> None:
        for contact in contacts:
            if not contact.done():
                contact.set_result(None)

    timer = tasks.call_later(FIRST_CONTACT_S, give_up)
    await asyncio.wait(contacts)
    timer.cancel()
