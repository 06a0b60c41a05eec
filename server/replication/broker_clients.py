"""Clients of other brokers, at their listeners between brokers."""

from __future__ import annotations

from typing import Final

from kavka import __version__
from kavka.client.broker_client import BrokerClient, ClientSettings, Seams
from kavka.server.cluster.metadata_cache import MetadataCache
from kavka.server.controller.state import LiveBroker

REQUEST_TIMEOUT_S: Final = 30.0
"""Default of `controller.socket.timeout.ms` and `replica.socket.timeout.ms`."""


class BrokerClients:
    """Makes clients; each caller has connections of its own."""

    def __init__(self, broker_id: int, listener: str, seams: Seams) -> None:
        """`listener`: the name of the one between brokers."""
        self._listener = listener
        self._seams = seams
        self._settings = ClientSettings(
            client_id=str(broker_id),
            software_version=__version__,
            request_timeout_s=REQUEST_TIMEOUT_S,
        )

    def of_registration(self, broker: LiveBroker) -> BrokerClient | None:
        """A client of a broker as it is registered; None if it has no such listener."""
        for end in broker.info.endpoints:
            if end.listener == self._listener:
                return self._at(end.host, end.port)
        return None

    def of_metadata(self, metadata: MetadataCache, broker_id: int) -> BrokerClient | None:
        """A client of a broker as the controller has announced it; None if it has not."""
        known = metadata.image.brokers.get(broker_id)
        address = None if known is None else known.endpoints.get(self._listener)
        return None if address is None else self._at(*address)

    def _at(self, host: str, port: int) -> BrokerClient:
        return BrokerClient(host, port, self._settings, self._seams)
