"""Clients of other brokers, which connect to their inter-broker listeners."""

from __future__ import annotations

from kavka import __version__
from kavka.client.broker_client import BrokerClient, ClientSettings, Seams
from kavka.server.cluster.metadata_cache import MetadataCache
from kavka.server.config import BrokerSettings
from kavka.server.controller.state import LiveBroker


class Peers:
    """One client for each other broker that UpdateMetadata has announced. It is replaced when the
    broker's address changes."""

    def __init__(
        self, metadata: MetadataCache, listener: str, settings: ClientSettings, seams: Seams
    ) -> None:
        self._metadata = metadata
        self._listener = listener
        self._settings = settings
        self._seams = seams
        self._clients: dict[int, tuple[tuple[str, int], BrokerClient]] = {}
        """With the address of each."""

    def client(self, broker_id: int) -> BrokerClient | None:
        """A client of a broker; None if the controller has not announced it yet."""
        broker = self._metadata.image.brokers.get(broker_id)
        address = None if broker is None else broker.endpoints.get(self._listener)
        if address is None:
            return None
        known = self._clients.get(broker_id)
        if known is not None and known[0] == address:
            return known[1]
        self.disconnect(broker_id)
        client = BrokerClient(*address, self._settings, self._seams)
        self._clients[broker_id] = address, client
        return client

    def disconnect(self, broker_id: int) -> None:
        """Close the connection to a broker, if there is one. Its requests fail."""
        known = self._clients.pop(broker_id, None)
        if known is not None:
            known[1].close()

    def close(self) -> None:
        """Close all connections."""
        for broker_id in list(self._clients):
            self.disconnect(broker_id)


class BrokerClients:
    """Makes clients; each caller has connections of its own."""

    def __init__(self, settings: BrokerSettings, metadata: MetadataCache, seams: Seams) -> None:
        self._settings = settings
        self._metadata = metadata
        self._seams = seams

    def from_controller(self, broker: LiveBroker) -> BrokerClient | None:
        """The controller's client of a broker, at the address that the broker has registered; None
        if it has no inter-broker listener."""
        settings = self._settings
        of_client = self._client_settings(settings.controller_socket_timeout_ms)
        for end in broker.info.endpoints:
            if end.listener == settings.inter_broker_listener_name:
                return BrokerClient(end.host, end.port, of_client, self._seams)
        return None

    def for_controller(self) -> Peers:
        """For requests to the controller."""
        settings = self._settings
        return self._peers(settings.controller_socket_timeout_ms)

    def for_leaders(self) -> Peers:
        """For fetches from leaders."""
        settings = self._settings
        return self._peers(settings.replica_socket_timeout_ms)

    def for_transactions(self) -> Peers:
        """For requests about transactions, to their coordinators and from them."""
        return self._peers(self._settings.request_timeout_ms)

    def _peers(self, timeout_ms: int) -> Peers:
        listener = self._settings.inter_broker_listener_name
        return Peers(self._metadata, listener, self._client_settings(timeout_ms), self._seams)

    def _client_settings(self, timeout_ms: int) -> ClientSettings:
        return ClientSettings(
            client_id=str(self._settings.broker_id),
            software_version=__version__,
            request_timeout_s=timeout_ms / 1000,
        )
