"""Puts the brokers' dynamic settings in force: those found at the start, and each change since.

What can't be in force, because it came into the tree by another way than this broker's checks, is
left out and told in the log; the broker goes on with the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from kavka.server.cluster.entity_configs import TopicConfigs
from kavka.server.config import ConfigError
from kavka.server.config.dynamic_rules import usable
from kavka.server.config.live import LiveSettings
from kavka.server.config.value_types import one_line
from kavka.zktree import paths

logger = logging.getLogger(__name__)


class DynamicSettings:
    """Keeps `live` at the settings of the start with the dynamic ones on top."""

    def __init__(self, live: LiveSettings, configs: TopicConfigs) -> None:
        self._live = live
        self._start = live.now
        self._configs = configs
        configs.on_change(self._changed)

    def apply(self) -> None:
        """Put in force what `TopicConfigs` has read."""
        before = self._live.now.dynamic
        dynamic = replace(
            before,
            broker=_usable(self._configs.broker(self._start.broker_id), of_one_broker=True),
            default=_usable(self._configs.broker_defaults(), of_one_broker=False),
        )
        if dynamic == before:
            return
        try:
            settings = self._start.with_dynamic(dynamic)
        except ConfigError as error:
            for problem in error.problems:
                logger.error("can't apply dynamic settings: %s", problem)
            return
        self._warn({**dynamic.default, **dynamic.broker}, {**before.default, **before.broker})
        self._live.change(settings)

    def _changed(self, kind: str, name: str) -> None:
        if kind == paths.BROKER_CONFIGS:
            self.apply()  # another broker's change is none here

    def _warn(self, now: Mapping[str, str], before: Mapping[str, str]) -> None:
        """Tell what of the new values has no effect."""
        new = {key: text for key, text in now.items() if before.get(key) != text}
        for warning in self._start.warnings_without_effect(new):
            logger.warning("%s", warning)


def _usable(configs: Mapping[str, str], *, of_one_broker: bool) -> dict[str, str]:
    kept, dropped = usable(configs, of_one_broker=of_one_broker)
    for key, reason in dropped.items():
        logger.error("can't apply dynamic setting %s: %s", one_line(key), reason)
    return kept
