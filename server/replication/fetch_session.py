"""A follower's side of its fetch session with one leader (KIP-227), as a state machine without I/O.

The leader remembers what the follower fetches. A request within a session names only the partitions
that are new, those whose offset or epoch has changed, and those that are no longer fetched; the
response leaves out partitions of which there is nothing new. As in Apache Kafka's
FetchSessionHandler, the next request is a full one whenever the follower can't know what the leader
remembers: it ends the session and begins another.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, TypeAlias

from kavka.wire.errors import ErrorCode

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
EPOCH_MAX: Final = 2**31 - 1

TopicIdPartition: TypeAlias = tuple[bytes, int]
"""A partition: the bytes of its topic's id, and its index. A topic that was deleted and created
again has another id, so it can't be taken for the earlier one."""

SESSION_ERRORS: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
"""The leader can't go on with the session; a full request needs none."""


class FetchRequestPartition(NamedTuple):
    """What a request says of one partition; epochs are -1 if there are none. `offset` is the one to
    fetch from, `last_epoch` the leader epoch of the follower's last record."""

    leader_epoch: int
    offset: int
    last_epoch: int
    log_start: int


class SessionRequest(NamedTuple):
    """The fields of a Fetch request that depend on the session."""

    session_id: int
    epoch: int
    partitions: Mapping[TopicIdPartition, FetchRequestPartition]
    """The partitions that it names; in a full request all that are fetched."""
    forgotten: Collection[TopicIdPartition]
    """The partitions that are not fetched any more."""

    @property
    def is_full(self) -> bool:
        """Whether it begins a session."""
        return self.epoch == INITIAL_EPOCH


class FetchSession:
    """The session with one leader; at first there is none. One request at a time: after each
    `request`, `responded`, `refused` or `failed` is called, and `fetch` and `forget` only then."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._fetched: dict[TopicIdPartition, FetchRequestPartition] = {}
        self._changed: dict[TopicIdPartition, FetchRequestPartition] = {}
        """Those of them that the leader does not know like this."""
        self._forgotten: dict[TopicIdPartition, None] = {}
        """Those that it may know, but that are not fetched any more."""

    def fetch(self, topic_id_partition: TopicIdPartition, requested: FetchRequestPartition) -> None:
        """Ask for a partition like this from the next request on."""
        if self._fetched.get(topic_id_partition) != requested:
            self._fetched[topic_id_partition] = self._changed[topic_id_partition] = requested
            self._forgotten.pop(topic_id_partition, None)

    def forget(self, topic_id_partition: TopicIdPartition) -> None:
        """Do not ask for a partition from the next request on."""
        if self._fetched.pop(topic_id_partition, None) is not None:
            self._changed.pop(topic_id_partition, None)
            self._forgotten[topic_id_partition] = None

    def request(self) -> SessionRequest:
        """The next request, after which the leader knows what is fetched. It has to be encoded
        before anything else is called here."""
        changed, forgotten = self._changed, self._forgotten
        self._changed, self._forgotten = {}, {}
        if self._epoch == INITIAL_EPOCH:
            return SessionRequest(self._id, self._epoch, self._fetched, ())
        return SessionRequest(self._id, self._epoch, changed, forgotten)

    def responded(self, session_id: int, partitions: Collection[TopicIdPartition]) -> bool:
        """The leader has answered without an error, with this `session_id` (`NO_SESSION` if it
        keeps no session) and these partitions. False if the response can't belong to the request:
        then it must be ignored."""
        fetched, is_full = self._fetched, self._epoch == INITIAL_EPOCH
        if any(topic_id_partition not in fetched for topic_id_partition in partitions) or (
            is_full and len(partitions) < len(fetched)
        ):
            self.failed()
            return False
        if session_id == NO_SESSION:
            self._id, self._epoch = NO_SESSION, INITIAL_EPOCH
        elif is_full:
            self._id, self._epoch = session_id, 1
        else:
            self._epoch = 1 if self._epoch == EPOCH_MAX else self._epoch + 1
        return True

    def refused(self, code: int) -> bool:
        """The leader has answered with an error. Whether only the session is wrong: then the next
        request, which is a full one, may be sent at once."""
        is_of_session = self._epoch != INITIAL_EPOCH and code in SESSION_ERRORS
        self.failed()
        if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._id = NO_SESSION
        return is_of_session

    def failed(self) -> None:
        """There is no response, so the leader may or may not have received the request. The next
        one is a full request with the session's id, which ends the session at the leader."""
        self._epoch = INITIAL_EPOCH
