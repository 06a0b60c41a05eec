"""`DynamicSettings`: applies the dynamic broker settings, those in the tree at start-up and each
change since.

An invalid setting, which can be in the tree only if another program wrote it, is logged and
ignored; the others are applied.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from kavka.server.cluster.entity_configs import EntityConfigs
from kavka.server.config import ConfigError
from kavka.server.config.dynamic_rules import usable
from kavka.server.config.live import LiveSettings
from kavka.server.config.value_types import one_line
from kavka.zktree import paths

logger = logging.getLogger(__name__)


class DynamicSettings:
    """Keeps `live` at the static settings, overridden by the dynamic ones."""

    def __init__(self, live: LiveSettings, configs: EntityConfigs) -> None:
        self._live = live
        self._start = live.now
        self._configs = configs
        configs.on_change(self._changed)

    def apply(self) -> None:
        """Apply the settings that `EntityConfigs` has read."""
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
            self.apply()  # no effect if it is another broker's change

    def _warn(self, now: Mapping[str, str], before: Mapping[str, str]) -> None:
        """Log new values that have no effect."""
        new = {key: text for key, text in now.items() if before.get(key) != text}
        for warning in self._start.warnings_without_effect(new):
            logger.warning("%s", warning)


def _usable(configs: Mapping[str, str], *, of_one_broker: bool) -> dict[str, str]:
    kept, dropped = usable(configs, of_one_broker=of_one_broker)
    for key, reason in dropped.items():
        logger.error("can't apply dynamic setting %s: %s", one_line(key), reason)
    return kept
