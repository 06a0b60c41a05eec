"""The config table and the settings read by it: of the broker, of topics and of groups.

    settings = BrokerSettings.load(content, path=..., environ=..., overrides=["log.dirs=data"])

Adding a setting: one row in `broker_rows` or `topic_rows`, and a field with the row's name in
`BrokerSettings` or `kavka.log.settings.LogSettings`. `docs/configuration.md` is made from the rows.
"""

from kavka.server.config.listeners import Listener
from kavka.server.config.problems import ConfigError
from kavka.server.config.settings import BrokerSettings
from kavka.server.config.sources import Given, gather
from kavka.server.config.topic_overrides import log_settings, topic_warnings, validate_topic_configs
from kavka.server.config.value_types import BadValue

__all__ = [
    "BadValue",
    "BrokerSettings",
    "ConfigError",
    "Given",
    "Listener",
    "gather",
    "log_settings",
    "topic_warnings",
    "validate_topic_configs",
]
