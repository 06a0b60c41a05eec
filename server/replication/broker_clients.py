"""Clients of other brokers, at their listeners between brokers."""

from __future__ import annotations

from kavka import __version__
from kavka.client.broker_client import BrokerClient, ClientSettings, Seams
from kavka.server.cluster.metadata_cache import MetadataCache
from kavka.server.config import BrokerSettings
from kavka.server.controller.state import LiveBroker


class BrokerClients:
    """Makes clients; each caller has connections of its own."""

    def __init__(self, settings: BrokerSettings, seams: Seams) -> None:
        self._listener = settings.inter_broker_listener_name
        self._seams = seams
        self._of_controllers = self._settings(settings, settings.controller_socket_timeout_ms)
        self._of_replicas = self._settings(settings, settings.replica_socket_timeout_ms)

    @staticmethod
    def _settings(settings: BrokerSettings, timeout_ms: int) -> ClientSettings:
        return ClientSettings(
            client_id=str(settings.broker_id),
            software_version=__version__,
            request_timeout_s=timeout_ms / 1000,
        )

    def from_controller(self, broker: LiveBroker) -> BrokerClient | None:
        """The controller's client of a broker, as that is registered; None if it has no listener
        between brokers."""
        for end in broker.info.endpoints:
            if end.listener == self._listener:
                return BrokerClient(end.host, end.port, self._of_controllers, self._seams)
        return None

    def of_controller(self, metadata: MetadataCache, broker_id: int) -> BrokerClient | None:
        """A client of the controller; None as long as it has not announced itself."""
        return self._of_metadata(metadata, broker_id, self._of_controllers)

    def of_leader(self, metadata: MetadataCache, broker_id: int) -> BrokerClient | None:
        """A client of a leader; None as long as the controller has not announced that."""
        return self._of_metadata(metadata, broker_id, self._of_replicas)

    def _of_metadata(
        self, metadata: MetadataCache, broker_id: int, settings: ClientSettings
    ) -> BrokerClient | None:
        known = metadata.image.brokers.get(broker_id)
        address = None if known is None else known.endpoints.get(self._listener)
        return None if address is None else BrokerClient(*address, settings, self._seams)
