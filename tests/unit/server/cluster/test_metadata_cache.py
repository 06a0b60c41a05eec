"""The image of the cluster: what UpdateMetadata says, on top of what was known."""

from __future__ import annotations

import uuid

from kavka.server.cluster.control_messages import (
    LEADER_DURING_DELETE,
    NO_LEADER,
    NO_TOPIC_ID,
    TopicPartition,
    UpdateMetadata,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataTopicState,
)
from kavka.server.cluster.metadata_cache import (
    BrokerImage,
    MetadataCache,
    MetadataImage,
    PartitionImage,
    TopicImage,
)

ID_A, ID_B = uuid.UUID(int=10), uuid.UUID(int=11)


def state(index: int, leader: int = 1, leader_epoch: int = 0) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        partition_index=index,
        controller_epoch=1,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=(1, 2),
        zk_version=5,
        replicas=(1, 2, 3),
        offline_replicas=(3,),
    )


def image(index: int, leader: int = 1, leader_epoch: int = 0) -> PartitionImage:
    return PartitionImage(index, leader, leader_epoch, (1, 2, 3), (1, 2), (3,), 5)


def update(
    *topics: tuple[str, uuid.UUID, list[UpdateMetadataPartitionState]],
    brokers: tuple[UpdateMetadataBroker, ...] = (),
    controller_id: int = 1,
) -> UpdateMetadata:
    states = tuple(
        UpdateMetadataTopicState(name, topic_id, tuple(partitions))
        for name, topic_id, partitions in topics
    )
    return UpdateMetadata(controller_id, 1, 1, states, brokers)


def test_an_empty_cache() -> None:
    cache = MetadataCache("cluster")
    assert cache.image == MetadataImage("cluster", -1, {}, {}, {})


def test_brokers_and_controller_are_those_of_the_last_update() -> None:
    cache = MetadataCache("cluster")
    endpoints = (
        UpdateMetadataEndpoint(9092, "h", "IN", "PLAINTEXT"),
        UpdateMetadataEndpoint(9093, "out", "OUT", "SSL"),
    )
    cache.apply(update(brokers=(UpdateMetadataBroker(1, endpoints, "r"),), controller_id=1))
    assert cache.image.controller_id == 1
    assert cache.image.brokers == {
        1: BrokerImage(1, "r", {"IN": ("h", 9092), "OUT": ("out", 9093)})
    }
    cache.apply(update(brokers=(UpdateMetadataBroker(2, (), None),), controller_id=2))
    assert cache.image.controller_id == 2
    assert cache.image.brokers == {2: BrokerImage(2, None, {})}


def test_updates_add_up() -> None:
    cache = MetadataCache("cluster")
    cache.apply(update(("a", ID_A, [state(1), state(0)]), ("b", ID_B, [state(0)])))
    first = cache.image
    cache.apply(update(("a", ID_A, [state(2), state(0, leader=2, leader_epoch=1)])))
    assert cache.image.topics == {
        "a": TopicImage("a", ID_A, (image(0, 2, 1), image(1), image(2))),
        "b": TopicImage("b", ID_B, (image(0),)),
    }
    assert cache.image.names_by_id == {ID_A: "a", ID_B: "b"}
    assert first.topics["a"].partitions == (image(0), image(1)), "an image does not change"


def describe(cache: MetadataCache, *indexes: int, leader: int = 1, is_part: bool = False) -> None:
    states = [state(index, leader) for index in indexes]
    cache.apply(update(("a", ID_A, states))._replace(is_part=is_part))


def numbers(cache: MetadataCache) -> list[int] | None:
    """The partitions that clients see; None if there is no such topic."""
    topic = cache.image.topics.get("a")
    return None if topic is None else [partition.partition for partition in topic.partitions]


def test_a_new_topic_is_shown_with_the_last_of_its_partitions() -> None:
    """A client that saw some of them would take the topic for a smaller one."""
    cache = MetadataCache("cluster")
    describe(cache, 0, 1, is_part=True)
    describe(cache, 4, 5, is_part=True)
    describe(cache, 5, leader=2, is_part=True)
    assert numbers(cache) is None
    assert cache.image.names_by_id == {ID_A: "a"}, "followers fetch by this id"
    describe(cache, 2)
    assert numbers(cache) == [0, 1, 2, 4, 5], "3 has never had a leader"
    assert cache.image.topics["a"].partitions[3:] == (image(4), image(5, 2))
    describe(cache, 3)
    assert numbers(cache) == list(range(6))


def test_a_topic_that_grows_keeps_its_partitions_until_all_new_ones_are_known() -> None:
    cache = MetadataCache("cluster")
    describe(cache, 0, 1)
    describe(cache, 1, 2, 3, leader=2, is_part=True)
    assert cache.image.topics["a"].partitions == (image(0), image(1, 2))
    describe(cache, 4, is_part=True)
    assert numbers(cache) == [0, 1]
    describe(cache, 5)
    assert numbers(cache) == list(range(6))


def test_a_part_of_a_topic_that_is_known_changes_it() -> None:
    """A controller that begins describes all topics, to brokers too that know them."""
    cache = MetadataCache("cluster")
    describe(cache, 0, 2, 3)
    describe(cache, 0, 2, leader=2, is_part=True)
    assert cache.image.topics["a"].partitions == (image(0, 2), image(2, 2), image(3))
    describe(cache, 3, leader=2)
    assert cache.image.topics["a"].partitions == (image(0, 2), image(2, 2), image(3, 2))


def test_a_part_of_a_topic_that_was_created_again() -> None:
    cache = MetadataCache("cluster")
    describe(cache, 0, 1)
    cache.apply(update(("a", ID_B, [state(0)]))._replace(is_part=True))
    assert numbers(cache) is None
    assert cache.image.names_by_id == {ID_B: "a"}
    cache.apply(update(("a", ID_B, [state(1)])))
    assert cache.image.topics == {"a": TopicImage("a", ID_B, (image(0), image(1)))}


def test_a_topic_that_is_deleted_before_all_of_it_was_known() -> None:
    cache = MetadataCache("cluster")
    describe(cache, 1, 2, is_part=True)
    describe(cache, 1, leader=LEADER_DURING_DELETE)
    describe(cache, 2, leader=LEADER_DURING_DELETE)
    assert numbers(cache) is None
    assert cache.image.names_by_id == {}
    describe(cache, 0)
    assert numbers(cache) == [0], "nothing is left of the others"


def test_a_partition_without_a_leader_stays_in_sight() -> None:
    cache = MetadataCache("cluster")
    cache.apply(update(("a", ID_A, [state(0, leader=NO_LEADER)])))
    assert cache.image.topics["a"].partitions == (image(0, NO_LEADER),)


def test_a_topic_goes_with_the_first_of_its_partitions_that_are_deleted() -> None:
    cache = MetadataCache("cluster")
    cache.apply(update(("a", ID_A, [state(0), state(1)]), ("b", ID_B, [state(0)])))
    gone = state(0, leader=LEADER_DURING_DELETE), state(1, leader=LEADER_DURING_DELETE)
    assert cache.apply(update(("a", ID_A, [gone[1]]))) == [TopicPartition("a", 1)]
    assert list(cache.image.topics) == ["b"]
    assert cache.apply(update(("a", ID_A, list(gone)))) == [("a", 0), ("a", 1)]
    assert list(cache.image.topics) == ["b"]
    assert cache.image.names_by_id == {ID_B: "b"}
    assert cache.apply(update(("a", ID_A, [gone[0]]))) == [("a", 0)], "again is no error"


def test_a_recreated_topic_has_nothing_of_the_old_one() -> None:
    cache = MetadataCache("cluster")
    cache.apply(update(("a", ID_A, [state(0), state(1)])))
    cache.apply(update(("a", ID_B, [state(0, leader=2)])))
    assert cache.image.topics["a"] == TopicImage("a", ID_B, (image(0, 2),))
    assert cache.image.names_by_id == {ID_B: "a"}


def test_a_topic_without_an_id_has_no_name_by_id() -> None:
    cache = MetadataCache("cluster")
    cache.apply(update(("a", NO_TOPIC_ID, [state(0)])))
    assert list(cache.image.topics) == ["a"]
    assert cache.image.names_by_id == {}


def test_partitions_are_found_by_number_also_with_gaps() -> None:
    topic = TopicImage("a", ID_A, (image(0), image(2), image(5)))
    assert [topic.partition(index) for index in (0, 1, 2, 5, 6, -1)] == [
        image(0),
        None,
        image(2),
        image(5),
        None,
        None,
    ]


def test_what_fills_a_gap_is_in_its_place() -> None:
    """An Apache Kafka controller does not describe a partition that has never had a leader."""
    cache = MetadataCache("cluster")
    describe(cache, 0, 2)
    assert numbers(cache) == [0, 2]
    describe(cache, 2, leader=2)
    describe(cache, 1)
    assert cache.image.topics["a"].partitions == (image(0), image(1), image(2, 2))
