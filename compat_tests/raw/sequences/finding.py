"""FindCoordinator: kinds, keys and, since version 4, several of them (KIP-699)."""

from __future__ import annotations

from typing import Any

from kavka.compat_tests.raw.case import Cases, Function, Ground

CASES = Cases("FindCoordinator", transactional=True)
BATCHED_SINCE = 4
TRANSACTIONS = 1


def asking(*keys: str, kind: int = 0) -> Function:
    def request(on: Ground) -> dict[str, Any]:
        if on.version >= BATCHED_SINCE:
            return {"key_type": kind, "coordinator_keys": list(keys)}
        return {"key_type": kind, "key": keys[0]}

    return request


CASES.add("a group", asking("a-group"), topics=[])
CASES.add("an empty name", asking(""), topics=[])
CASES.add("a strange name", asking("ä/ \0?"), topics=[])
CASES.add("a long name", asking("g" * 10_000), topics=[])
CASES.add("no names", asking(), since=BATCHED_SINCE, topics=[])
CASES.add("several", asking("a", "b", "", "d"), since=BATCHED_SINCE, topics=[])
CASES.add("the same twice", asking("a", "a"), since=BATCHED_SINCE, topics=[])
for kind in (3, 99, -1):
    CASES.add(f"kind {kind}", asking("a", kind=kind), since=1, topics=[])
CASES.add("kind 3, several", asking("a", "b", kind=3), since=BATCHED_SINCE, topics=[])
for label, key in {"an id": "a-transaction", "an empty id": "", "a strange id": "ä/ \0?"}.items():
    CASES.add(label, asking(key, kind=TRANSACTIONS), since=1, topics=[])
CASES.add("ids", asking("a", "b", "", kind=TRANSACTIONS), since=BATCHED_SINCE, topics=[])
CASES.add("a share group", asking("a", kind=2), since=1, topics=[])
