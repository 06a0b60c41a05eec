"""A Kafka broker inside a test: `with kavka.testing.Broker() as broker:`, and for pytest fixtures.

`Broker` runs on its own thread and event loop, `AsyncBroker` on the caller's loop. Both
start in a few milliseconds on a free port, with their data in a temporary directory. `Cluster` and
`AsyncCluster` are several brokers that replicate. The pytest plug-in (`kavka.testing.plugin`) is
loaded automatically: `kavka_broker`, `kavka_topic`, `kavka_cluster`.

Importing this costs nothing: the broker's code is loaded when one of the names is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kavka.server.config import ConfigError
    from kavka.server.start_checks import StartError
    from kavka.testing.async_broker import AsyncBroker
    from kavka.testing.async_cluster import AsyncCluster
    from kavka.testing.broker import Broker
    from kavka.testing.client import Record
    from kavka.testing.cluster import Cluster
    from kavka.testing.lifetime import BrokerFailed
    from kavka.wire.errors import ApiError, ErrorCode

__all__ = [
    "ApiError",
    "AsyncBroker",
    "AsyncCluster",
    "Broker",
    "BrokerFailed",
    "Cluster",
    "ConfigError",
    "ErrorCode",
    "Record",
    "StartError",
]

_HOMES: Final = {
    "ApiError": "kavka.wire.errors",
    "AsyncBroker": "kavka.testing.async_broker",
    "AsyncCluster": "kavka.testing.async_cluster",
    "Broker": "kavka.testing.broker",
    "BrokerFailed": "kavka.testing.lifetime",
    "Cluster": "kavka.testing.cluster",
    "ConfigError": "kavka.server.config",
    "ErrorCode": "kavka.wire.errors",
    "Record": "kavka.testing.client",
    "StartError": "kavka.server.start_checks",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(_load(home), name)
    return found


def _load(module: str) -> Any:
    """Import without pytest's assertion rewriting, which it applies to every package with a
    plug-in: for the whole broker it would take a second whenever the result is not cached."""
    import sys
    from importlib import import_module

    rewriting = [one for one in sys.meta_path if type(one).__module__.startswith("_pytest.")]
    for one in rewriting:
        sys.meta_path.remove(one)
    try:
        return import_module(module)
    finally:
        sys.meta_path[:0] = rewriting


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
