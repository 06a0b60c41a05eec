"""The nodes that Apache Kafka 3.9.2 made in ZooKeeper, recorded (`kafka39_tree.json`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

_RECORDED: Final = json.loads(Path(__file__).with_name("kafka39_tree.json").read_text())

CREATED: Final[dict[str, dict[str, Any]]] = _RECORDED["created"]
"""Each node by its path, as it was when all topics were there."""

DELETED: Final[dict[str, dict[str, Any]]] = _RECORDED["deleted"]
"""The same after the topic `orders` was deleted."""
