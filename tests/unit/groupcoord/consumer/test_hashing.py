"""The hash of a group's topics: the judge is Apache Kafka 4.3.1's own code, run on these topics."""

from __future__ import annotations

from uuid import UUID

from kavka.groupcoord.consumer.hashing import TopicHashes
from kavka.wire.steps import run_at_once
from support.consumer_groups import FakeTopics


def cluster() -> FakeTopics:
    topics = FakeTopics()
    topics.create("foo", 2)
    topics.ids["foo"] = UUID("11223344-5566-7788-99aa-bbccddeeff00")
    topics.rack = {("foo", 0): ["rack-b", "rack-a"], ("foo", 1): ["ré"]}
    topics.create("b\U0001f600r", 1)
    topics.ids["b\U0001f600r"] = UUID(int=1 << 64 | 2)
    return topics


def test_hashes_are_those_of_apache_kafka() -> None:
    hashes = TopicHashes(cluster())
    assert run_at_once(hashes.of_group(["foo"])) == 6074067321162867702
    assert run_at_once(hashes.of_group(["b\U0001f600r"])) == 3180885058309833467
    assert run_at_once(hashes.of_group(["foo", "b\U0001f600r"])) == -265142429079800308
    assert run_at_once(hashes.of_group(["b\U0001f600r", "foo"])) == -265142429079800308


def test_a_hash_in_a_record_of_apache_kafka() -> None:
    topics = FakeTopics(alpha=3, beta=1)
    topics.ids = {
        "alpha": UUID("182a9a66-e341-4b6f-a263-e4048219ef14"),
        "beta": UUID("c48176f9-e382-4da9-bf4a-dfa89540d9ab"),
    }
    assert run_at_once(TopicHashes(topics).of_group(["alpha", "beta"])) == 0x0E99D88BAA55A2BF


def test_unknown_topics_do_not_count() -> None:
    hashes = TopicHashes(cluster())
    assert run_at_once(hashes.of_group(["foo", "nothing"])) == run_at_once(hashes.of_group(["foo"]))
    assert run_at_once(hashes.of_group(["nothing"])) == 0
    assert run_at_once(hashes.of_group([])) == 0


def test_hashes_are_cached_until_they_are_invalidated() -> None:
    topics = cluster()
    hashes = TopicHashes(topics)
    before = run_at_once(hashes.of_group(["foo"]))
    topics.counts["foo"] = 3
    assert run_at_once(hashes.of_group(["foo"])) == before
    hashes.invalidate("foo")
    assert run_at_once(hashes.of_group(["foo"])) != before
