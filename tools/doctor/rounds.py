"""The second part: through the cluster, once brokers answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NamedTuple

from kavka.tools.admin.requests import DescribeLogDirsRequest
from kavka.tools.doctor import transactions as judged
from kavka.tools.doctor.asks_groups import watch
from kavka.tools.doctor.asks_offsets import ends, stamps
from kavka.tools.doctor.asks_transactions import open_in_partitions, still_open, transactions
from kavka.tools.doctor.asks_writes import write_to_all
from kavka.tools.doctor.client_settings import Environment, judge_settings
from kavka.tools.doctor.clocks import Reading, judge_readings, judge_stamps
from kavka.tools.doctor.cluster import Cluster, Unanswered, configs_of
from kavka.tools.doctor.findings import Finding, error, note, ok
from kavka.tools.doctor.groups import judge_groups
from kavka.tools.doctor.health import (
    judge_internal_topics,
    judge_leaders,
    judge_log_dirs,
    judge_partitions,
)
from kavka.tools.doctor.requests import TOPIC_RESOURCE
from kavka.tools.doctor.retention import judge_retention
from kavka.tools.doctor.versions import Served
from kavka.wire.apis import describe_log_dirs

Tell = Callable[[Iterable[Finding]], None]
Configs = Mapping[str, Mapping[str, str | None]]

TOPICS_PER_REQUEST: Final = 500
BROKERS_OWN: Final = ("__consumer_offsets", "__transaction_state")
"""Topics whose records brokers write, by their own clocks."""


class Wishes(NamedTuple):
    """What the doctor may do."""

    watch_s: float
    """How long groups are watched."""
    writes: bool
    """Whether it may make a topic for a moment and write to it."""


async def rounds(
    cluster: Cluster, served: Served, config: Mapping[str, str], wishes: Wishes, tell: Tell
) -> None:
    """Check what can be checked; what can't is said, and the rest goes on."""

    async def go(step: str, check: Callable[[], Awaitable[Iterable[Finding]]]) -> None:
        try:
            tell(await check())
        except Unanswered as failure:
            tell([note(step, "not-checked", "this step", f"could not be checked: {failure}")])

    configs: dict[str, Mapping[str, str | None]] = {}
    sizes: Counter[str] = Counter()

    async def partitions() -> Iterable[Finding]:
        configs.update(await _topic_configs(cluster))
        return judge_partitions(cluster.metadata, configs)

    async def log_dirs() -> Iterable[Finding]:
        answers = await cluster.ask_all(describe_log_dirs.API, DescribeLogDirsRequest())
        for answer in answers.values():
            for directory in answer.results:
                for topic in directory.topics:
                    sizes[topic.name] += sum(
                        partition.partition_size for partition in topic.partitions
                    )
        return judge_log_dirs(answers)

    if wishes.writes:
        await go("write", lambda: _written(cluster))
    await go("partitions", partitions)
    tell(judge_leaders(cluster.metadata))
    await go("log-dirs", log_dirs)
    tell(judge_internal_topics(cluster.metadata, _broker_config(cluster)))
    if not wishes.writes:
        await go("clock", lambda: _clocks(cluster, configs))
    await go("groups", lambda: _groups(cluster, wishes.watch_s))
    await go("transactions", lambda: _transactions(cluster))
    tell(judge_retention(_of_users(cluster, configs), sizes))
    if config:
        racks = frozenset(broker.rack for broker in cluster.metadata.brokers if broker.rack)
        tell(judge_settings(config, Environment(_broker_config(cluster), served, racks)))


def _broker_config(cluster: Cluster) -> Mapping[str, str | None]:
    """One broker's: the settings that count here are alike in all."""
    return next((config for _, config in sorted(cluster.configs.items()) if config), {})


async def _topic_configs(cluster: Cluster) -> Configs:
    names = [topic.name or "" for topic in cluster.metadata.topics if topic.name]
    found: dict[str, Mapping[str, str | None]] = {}
    for first in range(0, len(names), TOPICS_PER_REQUEST):
        some = names[first : first + TOPICS_PER_REQUEST]
        found |= await configs_of(cluster, TOPIC_RESOURCE, some)
    return found


def _of_users(cluster: Cluster, configs: Configs) -> Configs:
    internal = {topic.name for topic in cluster.metadata.topics if topic.is_internal}
    return {name: config for name, config in configs.items() if name not in internal}


async def _written(cluster: Cluster) -> Iterable[Finding]:
    results = await write_to_all(cluster)
    readings = {broker: found for broker, found in results.items() if isinstance(found, Reading)}
    failures = {broker: found for broker, found in results.items() if isinstance(found, str)}
    return [
        *(ok("write", f"broker {broker}", "has taken a record") for broker in readings),
        *(
            error(
                "write",
                "refused",
                f"broker {broker}",
                f"takes no record: {found}",
                "look at the broker's log, and at its disks",
            )
            for broker, found in failures.items()
        ),
        *judge_readings(readings),
    ]


async def _clocks(cluster: Cluster, configs: Configs) -> Iterable[Finding]:
    by_brokers = [
        name
        for name, config in configs.items()
        if config.get("message.timestamp.type") == "LogAppendTime"
    ]
    found = await stamps(cluster, [*BROKERS_OWN, *by_brokers])
    return judge_stamps(found, cluster.seams.clock.now_ms())


async def _groups(cluster: Cluster, watch_s: float) -> Iterable[Finding]:
    groups = await watch(cluster, watch_s)
    partitions = {topic_partition for group in groups for topic_partition in group.committed}
    return judge_groups(groups, await ends(cluster, sorted(partitions)), watch_s)


async def _transactions(cluster: Cluster) -> Iterable[Finding]:
    before = await open_in_partitions(cluster)
    known = await transactions(cluster)
    after = await open_in_partitions(cluster)
    findings = judged.judge_transactions(known, cluster.seams.clock.now_ms())
    held = still_open(before, after)
    if cluster.is_whole():
        findings += judged.judge_hanging(held, known)
    elif any(held.values()):
        findings.append(
            note(
                "transactions",
                "not-checked",
                "open transactions",
                "can't be compared with all coordinators: some brokers can't be reached",
            )
        )
    return findings or [judged.none_wrong(known)]
