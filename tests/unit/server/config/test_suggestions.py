from __future__ import annotations

import pytest

from kavka.server.config.suggestions import suggestion


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("num.partition", "num.partitions"),
        ("log.dirss", "log.dirs"),
        ("advertised.listener", "advertised.listeners"),
        ("zookeeper.conect", "zookeeper.connect"),
        ("retention.ms", "log.retention.ms"),  # a topic's, of which the broker has the default
        ("max.message.bytes", "message.max.bytes"),
        ("listener.name.in.ssl.key.pasword", "listener.name.in.ssl.key.password"),
        ("my.very.own", ""),
        ("cruise.control.metrics.reporter.bootstrap.servers", ""),  # near to nothing of its own
    ],
)
def test_what_was_probably_meant(key: str, meant: str) -> None:
    assert suggestion(key) == meant
