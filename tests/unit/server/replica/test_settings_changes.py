"""A topic's settings, changed in the tree as another broker would change them, count at once."""

from __future__ import annotations

from kavka.zktree import paths
from kavka.zktree.api import Create
from support.memory_broker import MemoryBroker, scenario


@scenario(topics={"t": 2, "other": 1})
async def test_configs_changed_in_the_tree_take_effect(broker: MemoryBroker) -> None:
    tree = broker.parts.coordination
    before = broker.replica("other").log.settings
    await tree.set(
        paths.config(paths.TOPIC_CONFIGS, "t"), paths.encode_config({"max.message.bytes": "77"})
    )
    note = paths.encode_config_change(paths.TOPIC_CONFIGS, "t")
    await tree.multi([Create(f"{paths.CONFIG_CHANGES}/config_change_", note, sequential=True)])
    await broker.advance(0)
    assert [
        broker.replica("t", partition).log.settings.max_message_bytes for partition in (0, 1)
    ] == [77, 77]
    assert broker.replica("other").log.settings == before
