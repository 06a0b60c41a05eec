"""What the fixtures of kafka-python's tests import, and its source archive lacks.

The tests start no broker: they use the one at KAFKA_URI, which is not theirs to stop.
"""


class ExternalService:
    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    def open(self) -> None:
        """It is open."""

    def dump_logs(self) -> None:
        """Its logs are shown by who started it."""

    def stop(self) -> None:
        """It is stopped by who started it."""


class SpawnedService:
    def __init__(self, *_: object) -> None:
        raise AssertionError("a test wants a broker of its own")
