"""Making what cases need: their topics with the records in them, on one broker."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from kavka.compat_tests.raw.case import Case, Facts, NotPlayable, Outcome, Step, Topic, topic_name
from kavka.compat_tests.raw.codec import wire_client
from kavka.compat_tests.raw.link import Link
from kavka.compat_tests.raw.topics import GROUP_TOPIC, TRANSACTION_TOPIC
from kavka.compat_tests.raw.waiting import eventually

TOPICS_PER_REQUEST: Final = 100
WITHIN_S: Final = 60.0

CREATE_TOPICS: Final = ("CreateTopics", 5)
METADATA: Final = ("Metadata", 12)
PRODUCE: Final = ("Produce", 8)

PRODUCER_ID: Final = ("InitProducerId", 0)

OFFSET_FETCH: Final = ("OffsetFetch", 5)
FIND_COORDINATOR: Final = ("FindCoordinator", 3)
HEARTBEAT: Final = ("ConsumerGroupHeartbeat", 1)
GROUPS: Final = 32
"""So many are asked for that each partition of the offsets topic has one of them."""
DESCRIBE_TRANSACTIONS: Final = ("DescribeTransactions", 0)
TRANSACTIONS: Final = 32
"""As for groups."""
TRANSACTIONAL_ID_NOT_FOUND: Final = 105

NOT_YET: Final = (3, 5, 6)
"""UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER: soon after creation."""

Runs = Iterable[tuple[Case, int]]


def facts_of(host: str, port: int, prefix: str) -> Facts:
    """What there is to know of a broker before anything is made; it must have all it needs.
    NotInTime; NotPlayable if it is one of several, or does not answer."""
    with Link(host, port) as link:
        eventually(
            lambda: _ask(link, PRODUCER_ID, transactional_id=None)["error_code"] == 0,
            within_s=WITHIN_S,
            goal="the broker gives producer ids",
        )
        answer = eventually(
            lambda: known if (known := _ask(link, METADATA, topics=[]))["brokers"] else None,
            within_s=WITHIN_S,
            goal="the broker knows itself",
        )
    if len(answer["brokers"]) > 1:
        raise NotPlayable("the broker is one of several: cases are for a cluster of one")
    (broker,) = answer["brokers"]
    return Facts(
        host,
        port,
        broker["node_id"],
        answer["cluster_id"],
        prefix=prefix,
        listed=(broker["host"], broker["port"]),
    )


def with_coordinators(facts: Facts) -> Facts:
    """Have the topics of offsets and transactions made. NotInTime, NotPlayable."""
    with Link(facts.host, facts.port, facts.offered) as link:
        if facts.offers(*FIND_COORDINATOR) and facts.offers(*OFFSET_FETCH):
            await_coordinators(link)
        if facts.offers(*FIND_COORDINATOR) and facts.offers(*DESCRIBE_TRANSACTIONS):
            await_transactions(link)
        topics = _await_leaders(link, [GROUP_TOPIC, TRANSACTION_TOPIC])
    others = facts.others | {GROUP_TOPIC, TRANSACTION_TOPIC}
    epochs = frozenset(
        partition.get("leader_epoch", 0)
        for topic in topics
        if topic["name"] == TRANSACTION_TOPIC
        for partition in topic["partitions"]
    )
    ids = {**facts.ids, **_ids(topics)}
    return replace(facts, ids=ids, others=others, coordinator_epochs=epochs)


def prepare(facts: Facts, runs: Runs) -> Facts:
    """Make all that these runs need; the facts with the topics' ids. NotInTime, NotPlayable."""
    topics = _topics(facts, runs)
    names = list(topics)
    ids: dict[str, UUID] = dict(facts.ids)
    with Link(facts.host, facts.port, facts.offered) as link:
        for start in range(0, len(names), TOPICS_PER_REQUEST):
            chunk = names[start : start + TOPICS_PER_REQUEST]
            _create(link, {name: topics[name] for name in chunk})
            ids.update(_ids(_await_leaders(link, chunk)))
        for name, topic in topics.items():
            for batch in topic.batches:
                _append(link, name, bytes(batch))
        if any(case.of_groups for case, _ in runs):
            await_coordinators(link)
            if ids and facts.offers(*HEARTBEAT):
                await_seen(link, list(ids)[-1])
            if GROUP_TOPIC not in ids:
                ids = {**_ids(_await_leaders(link, [GROUP_TOPIC])), **ids}
        if any(case.transactional for case, _ in runs):
            await_transactions(link)
    return replace(facts, ids=ids)


def await_coordinators(link: Link) -> None:
    """Have the topic of offsets made, and wait until each of its partitions is served."""

    def is_served(group: str) -> bool:
        found = _ask(link, FIND_COORDINATOR, key=group, key_type=0)
        if found["error_code"]:
            return False
        return bool(_ask(link, OFFSET_FETCH, group_id=group, topics=[])["error_code"] == 0)

    for group in (f"group-{number}" for number in range(GROUPS)):
        eventually(lambda: is_served(group), within_s=WITHIN_S, goal=f"{group} has a coordinator")  # noqa: B023 - called here


def await_transactions(link: Link) -> None:
    """The same for the topic of transactions."""

    def is_served(name: str) -> bool:
        if _ask(link, FIND_COORDINATOR, key=name, key_type=1)["error_code"]:
            return False
        (state,) = _ask(link, DESCRIBE_TRANSACTIONS, transactional_ids=[name])["transaction_states"]
        return bool(state["error_code"] == TRANSACTIONAL_ID_NOT_FOUND)

    for name in (f"transaction-{number}" for number in range(TRANSACTIONS)):
        eventually(lambda: is_served(name), within_s=WITHIN_S, goal=f"{name} has a coordinator")  # noqa: B023 - called here


def await_seen(link: Link, topic: str) -> None:
    """Wait until each coordinator knows of the topic that was made last: in Apache Kafka each
    learns of it by itself. Nothing to wait for where the protocol of KIP-848 is not served."""

    def is_assigned(group: str) -> bool:
        member = {"group_id": group, "member_id": "a-member", "rebalance_timeout_ms": 1000}
        fields = {"member_epoch": 0, "subscribed_topic_names": [topic], "topic_partitions": []}
        answer = _played(link, HEARTBEAT, **member, **fields)
        if isinstance(answer, Outcome):
            return True
        assigned = answer["assignment"] and answer["assignment"]["topic_partitions"]
        _played(link, HEARTBEAT, **member, member_epoch=-1)
        return bool(assigned)

    for group in (f"seeing-{number}" for number in range(GROUPS)):
        eventually(lambda: is_assigned(group), within_s=WITHIN_S, goal=f"{group} sees {topic}")  # noqa: B023 - called here


def _topics(facts: Facts, runs: Runs) -> dict[str, Topic]:
    found: dict[str, Topic] = {}
    for case, version in runs:
        for topic in _lasting(case):
            name = topic_name(facts.prefix, case, version, topic)
            assert found.setdefault(name, topic) == topic or not topic.shared, f"two {name}"
    return {name: topic for name, topic in found.items() if name not in facts.ids}


def _lasting(case: Case) -> Iterable[Topic]:
    """Its topics, whose records are not deleted for being old, unless cases look at configs."""
    if "Config" in case.api or case.api == "CreateTopics":
        return case.topics
    return [
        replace(topic, configs={"retention.ms": "-1", **topic.configs}) for topic in case.topics
    ]


def _create(link: Link, topics: Mapping[str, Topic]) -> None:
    described = [
        wire_client.new_topic(name, topic.partitions, configs=topic.configs)
        for name, topic in topics.items()
    ]
    answer = _ask(link, CREATE_TOPICS, topics=described, timeout_ms=60_000, validate_only=False)
    refused = [topic for topic in answer["topics"] if topic["error_code"]]
    if refused:
        raise NotPlayable(f"topics for cases were refused: {refused[0]}")


def _await_leaders(link: Link, names: list[str]) -> list[Any]:
    """What Metadata says of topics once all their partitions have leaders."""

    def led() -> list[Any] | None:
        answer = _ask(
            link,
            METADATA,
            topics=[{"topic_id": None, "name": name} for name in names],
            allow_auto_topic_creation=False,
        )
        topics: list[Any] = answer["topics"]
        missing = any(topic["error_code"] or any(_codes(topic)) for topic in topics)
        return None if missing else topics

    return eventually(led, within_s=WITHIN_S, goal="the topics of the cases have leaders")


def _ids(topics: list[Any]) -> dict[str, UUID]:
    return {topic["name"]: topic["topic_id"] for topic in topics if topic["topic_id"] is not None}


def _codes(topic: Any) -> Iterator[int]:
    return (partition["error_code"] for partition in topic["partitions"])


def _append(link: Link, name: str, batch: bytes) -> None:
    deadline = time.monotonic() + WITHIN_S
    while True:
        partition = {"index": 0, "records": batch}
        answer = _ask(
            link,
            PRODUCE,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[{"name": name, "partition_data": [partition]}],
        )
        code = answer["responses"][0]["partition_responses"][0]["error_code"]
        if code not in NOT_YET or time.monotonic() > deadline:
            break
    if code:
        raise NotPlayable(f"records for cases were refused: {answer}")


def _played(link: Link, api_and_version: tuple[str, int], **fields: Any) -> Any:
    api = api_and_version[0], link.usable(*api_and_version)
    return link.play(Step(wire_client.framed(wire_client.encode(*api, 1, **fields)), api))


def _ask(link: Link, api: tuple[str, int], **fields: Any) -> Any:
    answer = _played(link, api, **fields)
    if isinstance(answer, Outcome) or "unreadable" in answer:
        raise NotPlayable(f"{api[0]} was answered by {answer}")
    return answer
