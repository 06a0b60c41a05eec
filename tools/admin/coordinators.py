"""Requests to the coordinators of groups or transactional ids: they are looked up, and again where
they have changed or are not ready."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.errors import Failed
from kavka.wire.api import Api
from kavka.wire.apis import find_coordinator
from kavka.wire.apis.find_coordinator import Coordinator
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

_NOT_YET: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


@message
class FindCoordinatorRequest:
    """`coordinator_keys` since version 4, `key` before."""

    key: str
    key_type: int
    coordinator_keys: Sequence[str]


class Outcome(NamedTuple):
    """What became of one key."""

    coordinator: Coordinator
    code: int
    """An error of the search for the coordinator, or its own."""

    message: str | None
    result: Any
    """None if no coordinator was found."""


Results = Callable[[Any], Iterable[tuple[str, int, str | None, Any]]]
"""Of a response: each key, its error code, what is said with it, and what else was answered."""


async def ask_coordinators(
    cluster: ClusterClient,
    keys: Iterable[str],
    api: Api,
    request: Callable[[Sequence[str]], Any],
    results: Results,
    *,
    within_s: float,
    kind: int = find_coordinator.GROUP,
    retriable: frozenset[ErrorCode] = frozenset(),
) -> dict[str, Outcome]:
    """Ask each key's coordinator, with one request for all that have the same.

    `request` makes it for some keys, `results` reads its response. `retriable`: error codes after
    which it is asked again, beside those of a coordinator that is not there yet. Failed if one has
    not answered in time.
    """
    left = list(dict.fromkeys(keys))
    found: dict[str, Outcome] = {}
    why = ""
    async for _ in cluster.attempts(within_s):
        try:
            for key, outcome in await _attempt(cluster, left, api, request, results, kind):
                if outcome.code in _NOT_YET | retriable:
                    why = outcome.message or f"the answer is {ErrorCode(outcome.code).name}"
                else:
                    found[key] = outcome
        except Failed as failed:
            why = str(failed)
        left = [key for key in left if key not in found]
        if not left:
            return found
    raise Failed(f"no coordinator of {left[0]!r} has answered within {within_s:g} s: {why}")


async def _attempt(
    cluster: ClusterClient,
    keys: Sequence[str],
    api: Api,
    request: Callable[[Sequence[str]], Any],
    results: Results,
    kind: int,
) -> list[tuple[str, Outcome]]:
    outcomes: list[tuple[str, Outcome]] = []
    led: defaultdict[tuple[str, int], list[Coordinator]] = defaultdict(list)
    for coordinator in await _find(cluster, keys, kind):
        if coordinator.error_code:
            outcomes.append(
                (
                    coordinator.key,
                    Outcome(coordinator, coordinator.error_code, coordinator.error_message, None),
                )
            )
        else:
            led[coordinator.host, coordinator.port].append(coordinator)

    async def ask(address: tuple[str, int], some: Sequence[Coordinator]) -> None:
        by_key = {coordinator.key: coordinator for coordinator in some}
        try:
            response = await cluster.ask_at(*address, api, request(list(by_key)))
        except Failed as failed:
            gone = ErrorCode.COORDINATOR_NOT_AVAILABLE
            outcomes.extend(
                (coordinator.key, Outcome(coordinator, gone, str(failed), None))
                for coordinator in some
            )
            return
        for key, code, text, result in results(response):
            outcomes.append((key, Outcome(by_key[key], code, text, result)))

    await asyncio.gather(*(ask(address, some) for address, some in led.items()))
    return outcomes


async def _find(cluster: ClusterClient, keys: Sequence[str], kind: int) -> list[Coordinator]:
    if await cluster.version_of(find_coordinator.API) >= find_coordinator.BATCHED_SINCE:
        request = FindCoordinatorRequest("", kind, keys)
        response = await cluster.ask(find_coordinator.API, request)
        return list(response.coordinators)
    found = []
    for key in keys:
        request = FindCoordinatorRequest(key, kind, [key])
        coordinator = await cluster.ask(find_coordinator.API, request)
        found.append(
            Coordinator(
                key,
                coordinator.node_id,
                coordinator.host,
                coordinator.port,
                coordinator.error_code,
                coordinator.error_message,
            )
        )
    return found
