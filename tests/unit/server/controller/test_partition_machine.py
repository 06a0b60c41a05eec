"""The controller's machine by example: an event in, the commands it should lead to out."""

from __future__ import annotations

import uuid

import pytest

from kavka.server.cluster.control_messages import (
    LeaderAndIsr,
    LeaderAndIsrResponse,
    StopReplica,
    StopReplicaResponse,
    TopicPartition,
    UpdateMetadata,
)
from kavka.server.controller.events import (
    CHUNK_PARTITIONS,
    BrokersChanged,
    Command,
    DeleteMarks,
    DeleteReplicas,
    Elect,
    ElectionResults,
    Enqueue,
    Event,
    LeaderAndIsrResponseReceived,
    LogDirsFailed,
    PartitionsFound,
    ReevaluatePartitions,
    RemoveTopic,
    ResendLeaderAndIsr,
    Send,
    StatesWritten,
    StateWrite,
    StopReplicaResponseReceived,
    StoredState,
    TopicsFound,
    TopicsMarked,
    TopicsRemoved,
    UpdateMetadataResponseReceived,
    Warn,
    WriteStates,
)
from kavka.server.controller.partition_machine import PartitionMachine, chunks
from kavka.server.controller.state import LiveBroker
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.paths import PartitionState
from support.partition_machine import (
    EPOCH,
    TOPIC_ID,
    brokers,
    found,
    info,
    machine,
    stored,
    told,
    tp,
    with_partition,
)


def test_a_new_partition_is_written_before_anybody_hears_of_it() -> None:
    made = machine(1, 2)
    (write,) = made.handle(PartitionsFound((found(2, 1),)))
    state = PartitionState(2, 0, (2, 1), EPOCH)
    assert write == WriteStates((StateWrite(tp(), state, -1),))
    commands = made.handle(StatesWritten({tp(): StoredState(state, 0, 50)}))
    assert told(commands) == [
        ("LeaderAndIsr", 1),
        ("LeaderAndIsr", 2),
        ("UpdateMetadata", 1),
        ("UpdateMetadata", 2),
    ]
    requests = [command.request for command in commands if isinstance(command, Send)]
    first = requests[0]
    assert isinstance(first, LeaderAndIsr)
    (topic,) = first.topic_states
    (partition,) = topic.partition_states
    assert (topic.topic_name, topic.topic_id) == ("t", TOPIC_ID)
    assert (partition.leader, partition.isr, partition.is_new) == (2, (2, 1), True)


def test_a_new_partition_without_live_replicas_waits_for_one() -> None:
    made = machine(1)
    commands = made.handle(PartitionsFound((found(2),)))
    assert [type(command) for command in commands] == [Warn]
    *_, post = made.handle(brokers(1, 2))
    assert post == Enqueue(ReevaluatePartitions((tp(),), (2,), ()))
    assert isinstance(post, Enqueue)
    (write,) = made.handle(post.event)
    assert isinstance(write, WriteStates)
    assert write.writes[0].state.leader == 2


def test_partitions_that_are_well_are_told_and_not_written() -> None:
    made = machine(1, 2)
    commands = made.handle(PartitionsFound((found(1, 2, stored=stored(1, 1, 2)),)))
    assert told(commands) == [
        ("LeaderAndIsr", 1),
        ("LeaderAndIsr", 2),
        ("UpdateMetadata", 1),
        ("UpdateMetadata", 2),
    ]
    assert len(commands) == 4
    request = commands[0]
    assert isinstance(request, Send) and isinstance(request.request, LeaderAndIsr)
    assert not request.request.topic_states[0].partition_states[0].is_new


def test_a_lone_broker_that_restarted_leads_in_a_new_epoch() -> None:
    made = machine(1)
    found_before = stored(1, 1, leader_epoch=4, version=6, mzxid=9)
    (write,) = made.handle(PartitionsFound((found(1, stored=found_before),)))
    state = PartitionState(1, 5, (1,), EPOCH)
    assert write == WriteStates((StateWrite(tp(), state, 6),))
    commands = made.handle(StatesWritten({tp(): StoredState(state, 7, 50)}))
    assert told(commands) == [("LeaderAndIsr", 1), ("UpdateMetadata", 1)]


def test_when_a_leader_goes_another_of_the_isr_leads() -> None:
    made = machine(1, 2)
    with_partition(made, 2, 1, state=stored(2, 2, 1, leader_epoch=4, version=6))
    metadata, post = made.handle(brokers(1))
    assert told([metadata]) == [("UpdateMetadata", 1)]
    assert isinstance(post, Enqueue)
    (write,) = made.handle(post.event)
    state = PartitionState(1, 5, (1,), EPOCH)
    assert write == WriteStates((StateWrite(tp(), state, 6),))


def test_without_a_clean_leader_there_is_none() -> None:
    made = machine(1, 2)
    with_partition(made, 2, state=stored(2, 2))
    _, post = made.handle(brokers(1))
    assert isinstance(post, Enqueue)
    (write,) = made.handle(post.event)
    assert isinstance(write, WriteStates)
    assert write.writes[0].state == PartitionState(-1, 1, (2,), EPOCH)
    written = StatesWritten({tp(): StoredState(write.writes[0].state, 1, 120)})
    assert told(made.handle(written)) == [("UpdateMetadata", 1)]
    assert made.handle(ReevaluatePartitions((tp(),), (), ())) == [], "nothing more can be done"


def test_a_new_broker_is_told_everything_it_has_to_know() -> None:
    made = machine(1)
    with_partition(made, 1, 2, state=stored(1, 1))
    with_partition(made, 1, index=1, state=stored(1, 1))
    *metadata, post = made.handle(brokers(1, 2))
    assert told(metadata) == [("UpdateMetadata", 1), ("UpdateMetadata", 2)]
    assert isinstance(post, Enqueue)
    commands = made.handle(post.event)
    assert told(commands) == [("LeaderAndIsr", 2), ("UpdateMetadata", 2), ("UpdateMetadata", 1)]
    replicas, everything, rest = (
        command.request for command in commands if isinstance(command, Send)
    )
    assert isinstance(rest, UpdateMetadata)
    assert len(rest.topic_states[0].partition_states) == 1, "only its own were offline"
    assert isinstance(replicas, LeaderAndIsr) and isinstance(everything, UpdateMetadata)
    assert len(replicas.topic_states[0].partition_states) == 1
    assert len(everything.topic_states[0].partition_states) == 2


def test_a_broker_with_a_new_address_changes_no_partition() -> None:
    made = machine(1)
    with_partition(made, 1, state=stored(1, 1))
    moved = BrokersChanged({1: LiveBroker(1, 10, info(9))})
    commands = made.handle(moved)
    assert told(commands) == [("UpdateMetadata", 1)] and len(commands) == 1


def test_a_broker_that_bounced_is_told_again() -> None:
    made = machine(1, 2)
    with_partition(made, 1, 2, state=stored(1, 1, 2))
    *_, post = made.handle(brokers(1, 2, epochs={2: 200}))
    assert post == Enqueue(ReevaluatePartitions((tp(),), (2,), (), (2,)))
    assert isinstance(post, Enqueue)
    (write,) = made.handle(post.event)
    assert isinstance(write, WriteStates)
    assert write.writes[0].state.isr == (1,), "it was away and may lack records"


def test_a_failed_log_directory_takes_the_replica_offline() -> None:
    made = machine(1)
    with_partition(made, 1, state=stored(1, 1))
    answer = LeaderAndIsrResponse(ErrorCode.NONE, {tp(): ErrorCode.KAFKA_STORAGE_ERROR})
    report, write = made.handle(LeaderAndIsrResponseReceived(1, answer))
    assert isinstance(report, Warn) and "KAFKA_STORAGE_ERROR" in report.text
    assert isinstance(write, WriteStates)
    state = write.writes[0].state
    assert state.leader == -1
    (metadata,) = made.handle(StatesWritten({tp(): StoredState(state, 1, 120)}))
    assert isinstance(metadata, Send) and isinstance(metadata.request, UpdateMetadata)
    partition = metadata.request.topic_states[0].partition_states[0]
    assert (partition.leader, partition.offline_replicas) == (-1, (1,))
    *_, post = made.handle(brokers(1, epochs={1: 300}))
    assert isinstance(post, Enqueue)
    (again,) = made.handle(post.event)
    assert isinstance(again, WriteStates) and again.writes[0].state.leader == 1


def test_a_broker_whose_directory_failed_is_asked_what_it_has() -> None:
    made = machine(1, 2)
    with_partition(made, 1, 2, state=stored(1, 1, 2))
    (post,) = made.handle(LogDirsFailed((2, 3)))
    assert post == Enqueue(ResendLeaderAndIsr((tp(),), (2, 3)))
    (asked,) = made.handle(ResendLeaderAndIsr((tp(),), (2, 3)))
    assert isinstance(asked, Send) and isinstance(asked.request, LeaderAndIsr)
    assert asked.broker_id == 2, "3 is not there"
    (state,) = asked.request.topic_states[0].partition_states
    assert (state.leader, state.isr, state.is_new) == (1, (1, 2), False), "nothing is decided"
    answer = LeaderAndIsrResponse(ErrorCode.NONE, {tp(): ErrorCode.KAFKA_STORAGE_ERROR})
    made.handle(LeaderAndIsrResponseReceived(2, answer))
    assert made.handle(ResendLeaderAndIsr((tp(),), (2,))) == [], "what it does not have is known"


@pytest.mark.parametrize(
    "response",
    [
        LeaderAndIsrResponse(ErrorCode.STALE_CONTROLLER_EPOCH, {}),
        LeaderAndIsrResponse(ErrorCode.NONE, {tp(): ErrorCode.INCONSISTENT_TOPIC_ID}),
        LeaderAndIsrResponse(ErrorCode.NONE, {tp(9): ErrorCode.KAFKA_STORAGE_ERROR}),
    ],
)
def test_other_refusals_are_reported(response: LeaderAndIsrResponse) -> None:
    made = machine(1)
    with_partition(made, 1, state=stored(1, 1))
    (report,) = made.handle(LeaderAndIsrResponseReceived(1, response))
    assert isinstance(report, Warn)


def updated(made: PartitionMachine, code: ErrorCode = ErrorCode.NONE) -> list[Command]:
    """Answer the UpdateMetadata that a new look at partition 0 leads to."""
    *_, send = made.handle(ReevaluatePartitions((tp(),), (1,), ()))
    assert isinstance(send, Send) and isinstance(send.request, UpdateMetadata)
    return made.handle(UpdateMetadataResponseReceived(1, send.request, code))


def test_a_topic_is_ready_when_the_controllers_own_broker_knows_it() -> None:
    made = machine(1)
    with_partition(made, 1, state=stored(1, 1))
    assert not made.cluster.is_ready("t")
    (report,) = updated(made, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert isinstance(report, Warn)
    assert not made.cluster.is_ready("t")
    assert updated(made) == []
    assert made.cluster.is_ready("t")
    assert not made.cluster.is_ready("missing")


def test_a_topic_with_a_leaderless_partition_is_not_ready() -> None:
    made = machine(1)
    with_partition(made, 2, state=stored(-1, 2))
    updated(made)
    assert not made.cluster.is_ready("t")


def test_answers_about_an_earlier_topic_of_the_name_count_for_nothing() -> None:
    made = machine(1)
    with_partition(made, 1, state=stored(1, 1))
    *_, send = made.handle(ReevaluatePartitions((tp(),), (1,), ()))
    made.handle(TopicsRemoved(("t",)))
    made.handle(TopicsFound({"t": uuid.UUID(int=78)}))
    with_partition(made, 1, state=stored(1, 1))
    assert isinstance(send, Send) and isinstance(send.request, UpdateMetadata)
    made.handle(UpdateMetadataResponseReceived(1, send.request, ErrorCode.NONE))
    assert not made.cluster.is_ready("t")


def deletion(made: PartitionMachine) -> list[Command]:
    (post,) = made.handle(TopicsMarked(("t",)))
    assert isinstance(post, Enqueue) and isinstance(post.event, DeleteReplicas)
    return made.handle(post.event)


def test_a_deleted_topic_is_forgotten_first_then_its_replicas_then_its_nodes() -> None:
    made = machine(1, 2)
    with_partition(made, 1, 2, state=stored(1, 1, 2))
    commands = deletion(made)
    assert told(commands) == [
        ("UpdateMetadata", 1),
        ("UpdateMetadata", 2),
        ("StopReplica", 1),
        ("StopReplica", 2),
    ]
    requests = [command.request for command in commands if isinstance(command, Send)]
    metadata, stop = requests[0], requests[2]
    assert isinstance(metadata, UpdateMetadata) and isinstance(stop, StopReplica)
    assert metadata.topic_states[0].partition_states[0].leader == -2
    partition = stop.topic_states[0].partition_states[0]
    assert (partition.leader_epoch, partition.delete_partition) == (-2, True)
    done = StopReplicaResponse(ErrorCode.NONE, {})
    assert made.handle(StopReplicaResponseReceived(1, stop, done)) == []
    assert made.handle(StopReplicaResponseReceived(2, stop, done)) == [RemoveTopic("t")]
    assert made.handle(StopReplicaResponseReceived(2, stop, done)) == [], "once is enough"
    made.handle(TopicsRemoved(("t",)))
    assert made.cluster.topics == {}


def test_a_replica_on_a_dead_broker_is_deleted_when_it_is_back() -> None:
    made = machine(1)
    with_partition(made, 1, 2, state=stored(1, 1))
    stop = deletion(made)[1]
    assert isinstance(stop, Send) and isinstance(stop.request, StopReplica)
    done = StopReplicaResponse(ErrorCode.NONE, {})
    assert made.handle(StopReplicaResponseReceived(1, stop.request, done)) == []
    *_, post = made.handle(brokers(1, 2))
    assert isinstance(post, Enqueue)
    commands = made.handle(post.event)
    assert told(commands) == [("UpdateMetadata", 2), ("StopReplica", 2)]
    assert made.handle(StopReplicaResponseReceived(2, stop.request, done)) == [RemoveTopic("t")]


@pytest.mark.parametrize(
    "response",
    [
        StopReplicaResponse(ErrorCode.STALE_BROKER_EPOCH, {}),
        StopReplicaResponse(ErrorCode.NONE, {tp(): ErrorCode.KAFKA_STORAGE_ERROR}),
    ],
)
def test_a_replica_that_was_not_deleted_keeps_the_topic(response: StopReplicaResponse) -> None:
    made = machine(1)
    with_partition(made, 1, state=stored(1, 1))
    stop = deletion(made)[1]
    assert isinstance(stop, Send) and isinstance(stop.request, StopReplica)
    (report,) = made.handle(StopReplicaResponseReceived(1, stop.request, response))
    assert isinstance(report, Warn)
    assert made.cluster.topics["t"].deleting


def test_a_deleted_topic_without_partitions_has_nothing_to_wait_for() -> None:
    made = machine(1)
    assert made.handle(TopicsMarked(("t",))) == [RemoveTopic("t")]


def test_marks_of_unknown_topics_are_forgotten() -> None:
    made = machine(1)
    assert made.handle(TopicsMarked(("x", "y"))) == [DeleteMarks(("x", "y"))]


def test_a_topic_is_marked_only_once() -> None:
    made = machine(1)
    with_partition(made, 1, state=stored(1, 1))
    assert len(made.handle(TopicsMarked(("t",)))) == 1
    assert made.handle(TopicsMarked(("t",))) == []


def test_nothing_is_decided_for_a_topic_being_deleted() -> None:
    made = machine(1, 2)
    with_partition(made, 1, 2, state=stored(1, 1, 2))
    made.handle(TopicsMarked(("t",)))
    events: list[Event] = [
        PartitionsFound((found(1, 2, stored=stored(1, 1, 2)),)),
        StatesWritten({tp(): stored(1, 1, 2)}),
        LeaderAndIsrResponseReceived(
            1, LeaderAndIsrResponse(ErrorCode.NONE, {tp(): ErrorCode.KAFKA_STORAGE_ERROR})
        ),
    ]
    for event in events:
        assert all(isinstance(command, Warn) for command in made.handle(event))


def test_events_about_what_is_gone_are_harmless() -> None:
    made = machine(1)
    gone = tp(0, "gone")
    stop = StopReplica(1, EPOCH, 10, ())
    events: list[Event] = [
        PartitionsFound((found(1, topic="gone"),)),
        ReevaluatePartitions((gone,), (1,), ()),
        DeleteReplicas((gone,)),
        StatesWritten({gone: stored(1, 1)}),
        TopicsRemoved(("gone",)),
        StopReplicaResponseReceived(1, stop, StopReplicaResponse(ErrorCode.NONE, {})),
    ]
    for event in events:
        assert made.handle(event) == []


def test_many_partitions_come_in_chunks() -> None:
    many = [tp(index) for index in range(2 * CHUNK_PARTITIONS + 1)]
    sizes = [len(chunk) for chunk in chunks(many)]
    assert sizes == [CHUNK_PARTITIONS, CHUNK_PARTITIONS, 1]
    assert [one for chunk in chunks(many) for one in chunk] == many


def test_the_story_tells_the_last_events() -> None:
    made = machine(1)
    for _ in range(100):
        made.handle(TopicsRemoved(("x",)))
    assert len(made.history) == 50
    assert made.history[-1] == "TopicsRemoved: 1, x"


# -- partitions that are added, and elections that somebody asks for ------------------------


def test_an_added_partition_leaves_the_others_alone() -> None:
    made = machine(1)
    with_partition(made, 1, state=stored(1, 1))
    (write,) = made.handle(PartitionsFound((found(1, index=1),)))
    assert write == WriteStates((StateWrite(tp(1), PartitionState(1, 0, (1,), EPOCH), -1),))
    commands = made.handle(StatesWritten({tp(1): stored(1, 1)}))
    assert told(commands) == [("LeaderAndIsr", 1), ("UpdateMetadata", 1)]
    for command in commands:
        assert isinstance(command, Send) and not isinstance(command.request, StopReplica)
        (topic,) = command.request.topic_states
        assert [state.partition_index for state in topic.partition_states] == [1]


def test_a_partition_added_to_a_topic_being_deleted_is_never_made() -> None:
    made = machine(1)
    with_partition(made, 1, state=stored(1, 1))
    made.handle(TopicsMarked(("t",)))
    assert made.handle(PartitionsFound((found(1, index=1),))) == []
    assert list(made.cluster.topics["t"].partitions) == [0]


def elect(made: PartitionMachine, *asked: TopicPartition, unclean: bool = False) -> list[Command]:
    return made.handle(Elect(asked, unclean))


def test_an_election_is_written_before_anybody_hears_of_it() -> None:
    made = machine(1, 2)
    with_partition(made, 2, 1, state=stored(1, 1, 2, leader_epoch=4, version=7))
    after = PartitionState(2, 5, (1, 2), EPOCH)
    assert elect(made, tp()) == [
        WriteStates((StateWrite(tp(), after, 7),)),
        ElectionResults({tp(): 2}),
    ]
    assert told(made.handle(StatesWritten({tp(): StoredState(after, 8, 200)}))) == [
        ("LeaderAndIsr", 1),
        ("LeaderAndIsr", 2),
        ("UpdateMetadata", 1),
        ("UpdateMetadata", 2),
    ]


def test_an_unclean_election_is_only_held_when_asked_for() -> None:
    made = machine(1)
    with_partition(made, 2, 1, state=stored(-1, 2, version=3))
    (result,) = elect(made, tp())
    assert code_of(result) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    write, result = elect(made, tp(), unclean=True)
    assert write == WriteStates(
        (StateWrite(tp(), PartitionState(1, 1, (1,), EPOCH, leader_recovery_state=1), 3),)
    )
    assert result == ElectionResults({tp(): 1})


def code_of(command: Command, asked: TopicPartition | None = None) -> ErrorCode:
    assert isinstance(command, ElectionResults)
    error = command.results[asked or tp()]
    assert isinstance(error, ApiError)
    return error.code


def test_each_partition_of_an_election_has_its_own_outcome() -> None:
    made = machine(1)
    with_partition(made, 1, state=stored(1, 1))
    with_partition(made, 1, state=stored(-1, 1), index=1)
    made.cluster.topics["t"].partitions[1].offline = (1,)
    asked = tp(), tp(1), tp(2), tp(topic="no")
    for unclean, at_1 in (
        (False, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (True, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ):
        (result,) = elect(made, *asked, unclean=unclean)
        assert [code_of(result, one) for one in asked] == [
            ErrorCode.ELECTION_NOT_NEEDED,
            at_1,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
    made.handle(TopicsMarked(("t",)))
    (result,) = elect(made, tp())
    assert code_of(result) is ErrorCode.INVALID_TOPIC_EXCEPTION
