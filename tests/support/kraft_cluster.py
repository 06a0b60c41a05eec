"""Three brokers of Apache Kafka 4, the first of which is the controller as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.oracle import ApacheKafka
from support.ports import HOST
from support.process import BrokerProcess, running

MEMBERS = 3


class KraftBroker(ApacheKafka):
    """A broker whose controller is another's."""

    def __init__(
        self, home: Path, settings: Mapping[str, str], node_id: int, controller: ApacheKafka
    ) -> None:
        super().__init__(home, settings)
        self._node_id = node_id
        self._controller = controller

    def prepare(self) -> None:
        self.port = self.ports.take()
        self.cluster_id = self._controller.cluster_id
        self._format(self._properties(self._controller.controller_port))

    def _properties(self, controller_port: int) -> dict[str, str]:
        address = f"PLAINTEXT://{HOST}:{self.port}"
        return {
            **super()._properties(controller_port),
            "process.roles": "broker",
            "node.id": str(self._node_id),
            "listeners": address,
            "advertised.listeners": address,
        }


@contextmanager
def serving(
    home: Path, settings_of: Callable[[Path], Mapping[str, str]]
) -> Iterator[list[BrokerProcess]]:
    """Its brokers, 1 to 3. `settings_of` a broker, by its directory."""
    homes = [home / f"broker-{number}" for number in range(1, MEMBERS + 1)]
    first = ApacheKafka(homes[0], settings_of(homes[0]))
    with running([first]):
        others = [
            KraftBroker(home, settings_of(home), number, first)
            for number, home in enumerate(homes[1:], 2)
        ]
        with running(others):
            yield [first, *others]
