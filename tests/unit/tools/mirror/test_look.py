"""What is looked at, and what becomes of what a broker refuses."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.java_errors import Refused
from kavka.tools.mirror import look as look_module
from kavka.tools.mirror.look import TOPIC, Look, look
from kavka.tools.mirror.topic_plan import Choice
from kavka.wire.errors import ErrorCode

CHOICE = Choice(frozenset(), re.compile(".*"))
GONE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
LIMIT = "max.message.bytes"
DEFAULT = "1048588"


class Cluster:
    """Stands in for one. `limits`: what topics have as their own limit; None for none."""

    def __init__(self, partitions: int = 2, **limits: str | None) -> None:
        self.partitions = dict.fromkeys(limits, partitions)
        self.limits = dict(limits)
        self.refuses: dict[tuple[str, str], ErrorCode] = {}
        """By API and topic."""

    async def topics(self) -> list[Any]:
        return [
            SimpleNamespace(
                name=name,
                topic_id=None,
                is_internal=False,
                error_code=0,
                partitions=range(self.partitions[name]),
            )
            for name in self.limits
        ]

    async def attempts(self, _: float) -> AsyncIterator[None]:
        for _ in range(3):
            yield

    async def ask(self, api: Any, request: Any) -> Any:
        names = [resource.resource_name for resource in request.resources]
        if api.name == "DescribeConfigs":
            return SimpleNamespace(results=[self._described(api.name, name) for name in names])
        for resource in request.resources:
            if (api.name, resource.resource_name) not in self.refuses:
                self.limits[resource.resource_name] = resource.configs[0].value
        return SimpleNamespace(responses=self._answers(api.name, names))

    async def ask_controller(self, api: Any, request: Any, _: object) -> Any:
        names = [topic.name for topic in request.topics]
        for topic in request.topics:
            if (api.name, topic.name) not in self.refuses:
                more = topic.num_partitions if api.name == "CreateTopics" else topic.count
                self.partitions[topic.name] = more
                self.limits.setdefault(topic.name, None)
        answers = self._answers(api.name, names)
        return SimpleNamespace(topics=answers, results=answers)

    def _described(self, api: str, name: str) -> Any:
        limit = self.limits.get(name)
        source = 0 if limit is None else TOPIC.source
        config = SimpleNamespace(name=LIMIT, value=limit or DEFAULT, config_source=source)
        return SimpleNamespace(**vars(self._answers(api, [name])[0]), configs=[config])

    def _answers(self, api: str, names: Iterable[str]) -> list[Any]:
        return [
            SimpleNamespace(
                name=name,
                resource_name=name,
                error_code=self.refuses.get((api, name), ErrorCode.NONE),
                error_message=None,
            )
            for name in names
        ]


@pytest.fixture(autouse=True)
def offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    async def offsets_at(
        cluster: Cluster, topic_partitions: Iterable[Any], *_: object
    ) -> dict[Any, int]:
        if gone := [
            topic_partition
            for topic_partition in topic_partitions
            if topic_partition[0] not in cluster.limits
        ]:
            raise Refused(GONE, f"{gone} are gone")
        return dict.fromkeys(topic_partitions, 0)

    monkeypatch.setattr(look_module, "offsets_at", offsets_at)


async def looked(source: Any, target: Any) -> Look:
    return await look(source, target, CHOICE, 1)


async def test_the_target_gets_what_the_source_has() -> None:
    source, target = Cluster(a="3000", b=None), Cluster(partitions=1, b=None)
    found = await looked(source, target)
    assert (target.partitions, target.limits) == ({"b": 2, "a": 2}, {"b": None, "a": "3000"})
    assert found.target["a"].configs == {LIMIT: "3000"}  # as it is by now
    assert found.target["b"].configs == {LIMIT: DEFAULT}
    assert set(found.starts) == {("a", 0), ("a", 1), ("b", 0), ("b", 1)}
    assert not found.refused


@pytest.mark.parametrize(
    ("api", "said", "left"),
    [
        ("DescribeConfigs", "tell the configs of topic a", set()),
        ("CreateTopics", "create topic a", set()),
        ("IncrementalAlterConfigs", "take the configs of topic a", {("a", 0), ("a", 1)}),
    ],
)
async def test_what_is_refused_of_a_topic_is_no_matter_of_the_others(
    api: str, said: str, left: set[tuple[str, int]]
) -> None:
    source, target = Cluster(a="3000", b=None), Cluster()
    target.refuses[api, "a"] = ErrorCode.POLICY_VIOLATION
    found = await looked(source, target)
    said = f"the target does not {said}: the broker answers POLICY_VIOLATION"
    assert found.refused == {"a": said}
    assert set(found.starts) == set(found.ends) == left | {("b", 0), ("b", 1)}
    assert (
        set(found.source)
        == set(found.target)
        == {topic_partition[0] for topic_partition in found.starts}
    )
    if left:
        assert found.target["a"].configs == {LIMIT: DEFAULT}  # as it is


async def test_partitions_that_the_target_does_not_get_are_left_out() -> None:
    source, target = Cluster(a=None), Cluster(partitions=1, a=None)
    target.refuses["CreatePartitions", "a"] = ErrorCode.INVALID_PARTITIONS
    found = await looked(source, target)
    assert set(found.starts) == {("a", 0)}
    assert "gives topic a no more partitions: the broker answers INV" in found.refused["a"]


async def test_what_may_pass_is_no_refusal_and_names_the_topic() -> None:
    source, target = Cluster(a=None), Cluster()
    target.refuses["CreateTopics", "a"] = ErrorCode.REQUEST_TIMED_OUT
    with pytest.raises(Failed, match="does not create topic a: the broker answers REQUEST_TIMED"):
        await looked(source, target)


async def test_a_topic_that_is_gone_when_its_configs_are_asked_for_is_left_out() -> None:
    source, target = Cluster(a=None, b=None), Cluster()
    source.refuses["DescribeConfigs", "a"] = GONE
    found = await looked(source, target)
    assert (set(found.source), found.refused) == ({"b"}, {})
    assert set(target.limits) == {"b"}


async def test_one_that_is_gone_when_its_offsets_are_asked_for_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target = Cluster(a=None, b=None), Cluster()
    ask = source.ask

    async def ask_then_delete(api: Any, request: Any) -> Any:
        found = await ask(api, request)
        source.limits.pop("a", None)
        return found

    monkeypatch.setattr(source, "ask", ask_then_delete)
    assert set((await looked(source, target)).source) == {"b"}


async def test_whether_the_source_is_empty_is_said_of_the_moment_in_which_it_was_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that has just started names its topics a moment later."""
    source = Cluster(a=None)
    later, answers = source.topics, [list[Any]()]

    async def topics() -> list[Any]:
        return answers.pop() if answers else await later()

    monkeypatch.setattr(source, "topics", topics)
    found = await looked(source, Cluster())
    assert (found.source, found.source_is_empty) == ({}, True)
    found = await looked(source, Cluster())
    assert (set(found.source), found.source_is_empty) == ({"a"}, False)


async def test_topics_that_come_and_go_all_the_time_end_the_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Cluster(a=None)

    async def offsets_at(*_: object) -> None:
        raise Refused(GONE)

    monkeypatch.setattr(look_module, "offsets_at", offsets_at)
    with pytest.raises(Failed, match="the source's topics change all the time: This server does"):
        await looked(source, Cluster())
