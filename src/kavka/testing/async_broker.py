"""A broker on the caller's event loop: `async with kavka.testing.AsyncBroker() as broker:`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from kavka.server.config import BrokerSettings, ConfigError
from kavka.server.host import Host
from kavka.server.instance import Instance
from kavka.server.start_checks import StartError
from kavka.testing.client import BROKER_DEFAULT, READ_WITHIN_S, Client, Record
from kavka.testing.lifetime import AsyncClosing, BrokerFailed
from kavka.testing.places import DataPath, Directory, Ports
from kavka.testing.settings import DIRECTORIES, broker_settings, given_settings, text_of
from kavka.wire.apis.list_offsets import LATEST

if TYPE_CHECKING:
    import os

    from kavka.server.broker import Broker as Parts

T = TypeVar("T")
logger = logging.getLogger(__name__)

NOT_RUNNING: Final = "the broker does not run: start() it first"
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class AsyncBroker(AsyncClosing):
    """A broker in this process, on the loop that runs when it is started: asyncio's or uvloop's.

    As `kavka.testing.Broker`, which documents the arguments and methods; but methods that take time
    are coroutines here.
    """

    def __init__(
        self,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        settings: Mapping[str, object] = NOTHING,
        **keywords: object,
    ) -> None:
        self._given = given_settings(settings, keywords)
        checked = broker_settings(self._given)  # so that a ConfigError is raised now
        own = next((key for key in DIRECTORIES if key in self._given), None)
        if own is not None and data_dir is not None:
            raise ConfigError(f"data_dir and {own} are both given: one of them is enough", own)
        self._sets_directory = own is None
        self._directory = Directory(data_dir if own is None else checked.log_dirs[0])
        self._ports = Ports()
        self._host: Host | None = None
        self._client: Client | None = None
        self._ending: asyncio.Task[None] | None = None
        self._addresses: dict[str, str] = {}
        self._cluster_id = ""

    # -- start and stop -------------------------------------------------------------------

    async def start(self) -> Self:
        """Start it, on its existing data, and return when clients can connect."""
        if self._host is not None:
            raise RuntimeError("the broker runs already")
        try:
            host = await self._start_host()
        except BaseException:
            if not self._addresses:  # it has never run: there is nothing to keep
                self.forget()
            raise
        self._record_addresses(host.instance)
        if host.instance.has_failed:
            self._on_failure()
        return self

    async def _start_host(self) -> Host:
        host = self._host = self._new_host(await self._settings())
        try:
            await host.start()
        except BaseException:
            self._host = None
            await host.stop()
            raise
        return host

    def _new_host(self, settings: BrokerSettings) -> Host:
        return Host(settings, self._on_failure)

    def _started(self, parts: Parts) -> None:
        """For a subclass that has more to do."""

    def _record_addresses(self, instance: Instance) -> None:
        parts = instance.broker
        assert parts is not None, "it is started"
        self._client = Client(parts, instance.settings.listeners[0].name)
        self._started(parts)
        self._cluster_id = parts.metadata.image.cluster_id
        self._addresses = {
            name: f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            for name, (host, port) in instance.addresses.items()
        }

    async def _settings(self) -> BrokerSettings:
        try:
            directory = str(self._directory.path) if self._sets_directory else None
        except OSError as failure:
            raise StartError(f"no temporary directory can be had: {failure}") from failure
        settings = broker_settings(self._given, directory)
        for warning in settings.warnings:
            logger.warning("%s", warning)
        try:
            return await self._ports.of(settings)
        except OSError as failure:
            raise StartError(f"listeners: no port can be had: {failure}") from failure

    async def stop(self) -> None:
        """Stop it cleanly, as SIGTERM does, if it runs."""
        host = await self._detach_host()
        if host is not None:
            await host.stop()

    async def kill(self) -> None:
        """End it abruptly, as SIGKILL does, if it runs."""
        host = await self._detach_host()
        if host is not None:
            await host.kill()

    async def restart(self) -> None:
        """`stop`, if it runs, and `start`: the same address, the same data."""
        await self.stop()
        await self.start()

    async def close(self) -> None:
        """Stop it if it runs, and release its ports and temporary data."""
        try:
            await self.stop()
        finally:
            self.forget()

    def forget(self) -> None:
        """Release the ports and temporary data of a broker that does not run."""
        self._ports.release()
        self._directory.remove()

    def _on_failure(self) -> None:
        if self._host is not None and self._client is not None:  # else it is stopping already
            self._client = None
            self._ending = self._host.stop_soon()

    async def _detach_host(self) -> Host | None:
        """The running host, for `stop` or `kill`. BrokerFailed if it has stopped after an error."""
        host, self._host, self._client = self._host, None, None
        if self._ending is not None:
            ending, self._ending = self._ending, None
            try:
                await ending
            except Exception as failure:
                raise BrokerFailed from failure
            raise BrokerFailed
        return host

    # -- state -----------------------------------------------------------------------

    @property
    def parts(self) -> Parts | None:
        """The broker's components; None while it does not run. Not for tests: they may change."""
        return self._host.instance.broker if self._host is not None and self.is_running else None

    @property
    def is_running(self) -> bool:
        """Whether it is started and has not stopped."""
        return self._host is not None and self._ending is None

    @property
    def has_failed(self) -> bool:
        """Whether it stopped after a fatal error; the next `stop`, `kill` or `close` raises."""
        return self._ending is not None

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` for clients, of the first listener; it stays the same over restarts."""
        return next(iter(self.addresses.values()))

    @property
    def addresses(self) -> Mapping[str, str]:
        """`host:port` of each listener, by its name."""
        return MappingProxyType(self._require_started(self._addresses))

    @property
    def cluster_id(self) -> str:
        """The cluster id; new with new data."""
        return self._require_started(self._cluster_id)

    @property
    def data_dir(self) -> DataPath:
        """The directory with the partitions' files; the first one of several."""
        return self._directory.path

    @staticmethod
    def _require_started(value: T) -> T:
        if not value:
            raise RuntimeError("the broker has not been started yet")
        return value

    # -- topics and records ---------------------------------------------------------------

    async def create_topic(
        self, name: str, partitions: int | None = None, configs: Mapping[str, object] = NOTHING
    ) -> None:
        """Create a topic, with `num.partitions` partitions by default."""
        texts = {key: text_of(key, value, f"topic {name}") for key, value in configs.items()}
        count = BROKER_DEFAULT if partitions is None else partitions
        await self.client.create_topic(name, count, texts)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic; afterwards its name is free."""
        await self.client.delete_topic(name)

    async def topics(self) -> list[str]:
        """The names of all topics, sorted."""
        return await self.client.topics()

    async def end_offsets(self, topic: str) -> dict[int, int]:
        """By partition, the offset that the next record will get."""
        return await self.client.offsets(topic, LATEST)

    async def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int = 0,
        timestamp_ms: int | None = None,
    ) -> int:
        """Write one record; its offset."""
        return await self.client.produce(topic, partition, value, key, headers, timestamp_ms)

    async def read(
        self,
        topic: str,
        partition: int | None = None,
        *,
        at_least: int = 0,
        within_s: float = READ_WITHIN_S,
    ) -> list[Record]:
        """All records of a topic or of one partition, by partition and offset."""
        return await self.client.read(topic, partition, at_least=at_least, within_s=within_s)

    @property
    def client(self) -> Client:
        """A client within the process. RuntimeError if it does not run, BrokerFailed."""
        if self._client is None:
            raise BrokerFailed if self.has_failed else RuntimeError(NOT_RUNNING)
        return self._client
