"""For which topics unclean leader elections are enabled: a replica outside the ISR, which may lack
records, becomes leader if no other can."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kavka.server.cluster.entity_configs import EntityConfigs
from kavka.server.config import BrokerSettings
from kavka.server.config.live import LiveSettings
from kavka.server.config.topic_overrides import allows_unclean_election
from kavka.zktree.paths import TOPIC_CONFIGS


class UncleanElections:
    """`unclean.leader.election.enable` of topics, and the broker's default."""

    def __init__(self, live: LiveSettings, configs: EntityConfigs) -> None:
        self._live = live
        self._configs = configs
        self.on_allowed: Callable[[str | None], None] = lambda topic: None
        """Called when it is allowed in a topic, or by default (None)."""
        configs.on_change(self._configs_changed)
        live.on_change(self._defaults_changed)

    def _configs_changed(self, kind: str, name: str) -> None:
        if kind == TOPIC_CONFIGS and self.allowed(name):
            self.on_allowed(name)

    def _defaults_changed(self, old: BrokerSettings, new: BrokerSettings) -> None:
        if allows_unclean_election(new, {}) and not allows_unclean_election(old, {}):
            self.on_allowed(None)

    def allowed(self, topic: str) -> bool:
        """Whether unclean leader elections are enabled for this topic."""
        return allows_unclean_election(self._live.now, self._configs.get(topic))

    async def refresh(self, topics: Iterable[str]) -> None:
        """Read the configs of new topics: there is no notification of those."""
        await self._configs.refresh(topics)
