"""Brokers of a cluster in this process: real sockets, files and threads, and a real ZooKeeper."""

from __future__ import annotations

from pathlib import Path

from kavka.server.broker import Broker
from kavka.server.config import BrokerSettings
from kavka.server.host import Host
from support.ports import HOST, free_port


class ClusterBroker:
    """One broker on the running loop. It can be started again on its directory."""

    def __init__(self, broker_id: int, directory: Path, zookeeper: str, *settings: str) -> None:
        """`zookeeper`: as in `zookeeper.connect`; `settings`: `key=value`."""
        self.broker_id = broker_id
        self._overrides = [
            f"broker.id={broker_id}",
            f"log.dirs={directory}",
            f"listeners=PLAINTEXT://{HOST}:{free_port()}",
            f"zookeeper.connect={zookeeper}",
            "zookeeper.connection.timeout.ms=60000",
            *settings,
        ]
        self._host: Host | None = None

    async def start(self) -> None:
        """Start; it must not run."""
        settings = BrokerSettings.load(environ={}, overrides=self._overrides)
        self._host = Host(settings, on_failure=lambda: None)
        await self._host.start()

    @property
    def is_up(self) -> bool:
        """Whether it was started, and neither stopped nor killed."""
        return self._host is not None

    @property
    def broker(self) -> Broker:
        """Its components, while it runs."""
        assert self._host is not None and self._host.instance.broker is not None
        return self._host.instance.broker

    @property
    def address(self) -> str:
        """Where clients find it."""
        assert self._host is not None
        host, port = self._host.instance.addresses["PLAINTEXT"]
        return f"{host}:{port}"

    async def stop(self) -> None:
        """A clean stop, if it runs."""
        host, self._host = self._host, None
        if host is not None:
            await host.stop()

    async def kill(self) -> None:
        """End as by SIGKILL."""
        host, self._host = self._host, None
        assert host is not None
        await host.kill()
