"""Waits for what `kavka reassign-partitions` has begun."""

from __future__ import annotations

import json

from commands.sessions import kavka
from kavka.tools.admin.reassign_partitions import TOOL
from support.process import BrokerProcess
from support.wait import eventually

DONE_WITHIN_S = 60.0


def await_moved(broker: BrokerProcess, name: str) -> None:
    line = f"--verify --reassignment-json-file {name} --preserve-throttles --output json"

    def is_done() -> bool:
        said = json.loads(kavka(TOOL, broker, line).stdout)
        return {move["state"] for move in said["partitions"] + said["moves"]} == {"completed"}

    eventually(is_done, within_s=DONE_WITHIN_S, what=f"{name} is done", detail=broker.tail)
