"""Where Kavka's answer is another than Apache Kafka's on purpose: the one reviewed list.

Each entry has its reason, which reports show beside the difference. One that no longer occurs, in
the first or the last of its versions, fails the differential test. What differs between any two
brokers is in `nature.py`, where paths are described.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from kavka.compat_tests.raw.case import Outcome
from kavka.compat_tests.raw.differences import Difference


class Anything:
    """Instead of a value: every value."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "anything"


ANYTHING: Final = Anything()


@dataclass(frozen=True)
class Allowed:
    """A difference on purpose, in these versions (first, last) of the cases that match."""

    api: str
    cases: str
    versions: tuple[int, int]
    path: str
    kavka: Any
    kafka: Any
    why: str

    def covers(self, api: str, case: str, version: int, difference: Difference) -> bool:
        """Whether it is about a difference in a version of a case of this API."""
        first, last = self.versions
        return (
            first <= version <= last
            and self.api == api
            and fnmatchcase(case, self.cases)
            and fnmatchcase(difference.path, self.path)
            and bool(self.kavka == difference.answered)
            and bool(self.kafka == difference.expected)
        )


_NO_NAME: Final = (
    "without a cursor the empty name is taken for the cursor's by Apache Kafka, which then fails"
)
_OVERFLOW: Final = (
    "the end of the page overflows in Apache Kafka, which answers with a cursor that it refuses"
)

_NOT_OPENED: Final = (
    "Kavka checks a batch's header, its CRC and its count, and does not open what is inside; "
    "clients check it when they read"
)
_OTHER_LIBRARY: Final = "other libraries compress to other bytes, which inflate to the same"
_NO_ANSWER: Final = "Apache Kafka fails in a way that leaves the request without an answer"

_NO_TLS: Final = "TLS and SASL come later; Kavka keeps no secret before anything can use it"
_FIXED: Final = "listeners are opened at the start only"
_BY_ZERO: Final = "Apache Kafka divides by the number of cleaners before it checks it"

_OTHER_FEATURES: Final = (
    "the other features say which of KRaft's records and coordinators a cluster uses; Kavka has "
    "those of groups and transactions"
)

_NO_KRAFT_VOTERS: Final = (
    "Kavka's controller is known by its id alone, as KRaft's static voters are, and listens where "
    "its broker does"
)

_PARTLY_DONE: Final = (
    "Apache Kafka answers a server error, and keeps as many of the new partitions as it may make"
)

_SURROGATE: Final = (
    "half of a surrogate pair is three unreadable bytes to Python and one unreadable character to "
    "Java; the name is that of no topic either way"
)

ALLOWED: Final[tuple[Allowed, ...]] = (
    *(
        Allowed(
            api,
            "a topic's name: half of a surrogate pair",
            versions,
            path,
            "topic-name-\ufffd\ufffd\ufffd",
            "topic-name-\ufffd",
            _SURROGATE,
        )
        for api, versions, path in (
            ("Produce", (0, 12), "responses.0.name"),
            ("Fetch", (0, 12), "responses.0.topic"),
            ("ListOffsets", (0, 11), "topics.0.name"),
            ("DeleteRecords", (0, 2), "topics.0.name"),
            ("AlterReplicaLogDirs", (0, 2), "results.0.topic_name"),
            ("Metadata", (4, 13), "topics.0.name"),
            ("OffsetCommit", (0, 9), "topics.0.name"),
            ("OffsetFetch", (0, 7), "topics.0.name"),
            ("OffsetForLeaderEpoch", (0, 4), "topics.0.topic"),
            ("AddPartitionsToTxn", (0, 3), "results_by_topic_v3_and_below.0.name"),
            ("AddPartitionsToTxn", (4, 5), "results_by_transaction.0.topic_results.0.name"),
            ("WriteTxnMarkers", (0, 2), "markers.0.topics.0.name"),
            ("TxnOffsetCommit", (0, 5), "topics.0.name"),
            ("DescribeQuorum", (0, 2), "topics.0.topic_name"),
        )
    ),
    Allowed(
        "CreatePartitions",
        "more than one request may make",
        (0, 3),
        "results.0.error_code",
        44,
        -1,
        _PARTLY_DONE,
    ),
    Allowed(
        "CreatePartitions",
        "more than one request may make",
        (0, 3),
        "results.0.error_message",
        ANYTHING,
        None,
        _PARTLY_DONE,
    ),
    *(
        Allowed("DescribeQuorum", "*", (2, 2), path, kavka, kafka, _NO_KRAFT_VOTERS)
        for path, kavka, kafka in (
            ("topics.0.partitions.0.current_voters.0.replica_directory_id", None, ANYTHING),
            ("nodes.0.listeners.0.name", "PLAINTEXT", "CONTROLLER"),
            ("nodes.0.listeners.0.port", "<the broker's port>", ANYTHING),
        )
    ),
    Allowed(
        "ApiVersions", "*", (4, 4), "supported_features.*", "<absent>", ANYTHING, _OTHER_FEATURES
    ),
    Allowed(
        "ApiVersions", "*", (3, 4), "finalized_features.*", "<absent>", ANYTHING, _OTHER_FEATURES
    ),
    Allowed(
        "IncrementalAlterConfigs",
        "a subscription, match=client_id=a{1,2}",
        (1, 1),
        "responses.0.error_message",
        "Illegal client matching pattern: 2}",
        "Illegal client matching pattern: client_id=a{1",
        "RE2 takes a brace that is not closed for itself, so that the next item is the bad one",
    ),
    Allowed(
        "AlterConfigs", "a resource twice", (0, 2), "", ANYTHING, Outcome.TIMED_OUT, _NO_ANSWER
    ),
    *(
        Allowed(
            "IncrementalAlterConfigs", "broker, TLS: *secret", (0, 1), path, kavka, kafka, _NO_TLS
        )
        for path, kavka, kafka in (
            ("responses.0.error_code", 40, 0),
            ("responses.0.error_message", ANYTHING, None),
        )
    ),
    Allowed(
        "DescribeConfigs",
        "*",
        (0, 0),
        "results.*.is_default",
        True,
        False,
        "Apache Kafka 3.9.2 no longer fills this field of the oldest version",
    ),
    Allowed(
        "IncrementalAlterConfigs",
        "all brokers: listeners",
        (0, 1),
        "responses.0.error_message",
        "Cannot update these configs dynamically: [listeners]",
        ANYTHING,
        _FIXED,
    ),
    Allowed(
        "IncrementalAlterConfigs",
        "*: no cleaners",
        (0, 1),
        "responses.0.error_message",
        ANYTHING,
        "/ by zero",
        _BY_ZERO,
    ),
    Allowed("Produce", "inside: *", (3, 13), "*", ANYTHING, ANYTHING, _NOT_OPENED),
    Allowed(
        "Produce",
        "records: a maximal timestamp*",
        (3, 13),
        "responses.*.max_timestamp",
        ANYTHING,
        ANYTHING,
        _NOT_OPENED,
    ),
    Allowed(
        "Produce",
        "records: negative timestamps",
        (3, 13),
        "responses.*.max_timestamp",
        -77,
        -1,
        _NOT_OPENED,
    ),
    *(
        Allowed(
            "Produce",
            f"* on a topic of {codec}",
            (3, 13),
            f"responses.*.records.batches.*.{field}",
            ANYTHING,
            ANYTHING,
            _OTHER_LIBRARY,
        )
        for codec, fields in {
            "gzip": ("packed",),  # the same zlib, but the header names another system
            "snappy": ("packed", "batch_length"),
            "zstd": ("packed", "batch_length"),
        }.items()
        for field in fields
    ),
    Allowed(
        "Produce",
        "opened for *: garbage",
        (3, 13),
        "responses.0.partition_responses.0.error_code",
        87,
        -1,
        "Apache Kafka stumbles over a number that never ends; Kavka says that a record is broken",
    ),
    *(
        Allowed("Produce", "old: *", (0, 2), path, ANYTHING, ANYTHING, _OTHER_LIBRARY)
        for path in (
            "responses.*.records.batches.*.packed",
            "responses.*.records.batches.*.batch_length",
        )
    ),
    Allowed(
        "Produce",
        "old: a negative timestamp*",
        (0, 2),
        "responses.0.partition_responses.0.error_code",
        32,
        -1,
        "Apache Kafka stumbles over it; Kavka says that it is the timestamp",
    ),
    Allowed(
        "Fetch",
        "*",
        (0, 2),
        "responses.?.partitions.0.records.messages.*",
        ANYTHING,
        "<absent>",
        "the first batch is given whole in old versions too; Apache Kafka gives nothing, forever",
    ),
    Allowed(
        "Fetch",
        "*",
        (0, 3),
        "responses.0.partitions.0.records",
        b"",
        None,
        "clients as old as that do not expect null",
    ),
    Allowed(
        "AddPartitionsToTxn",
        "no transactions",
        (4, 5),
        "",
        ANYTHING,
        Outcome.TIMED_OUT,
        _NO_ANSWER,
    ),
    *(
        Allowed("WriteTxnMarkers", case, (0, 2), "", ANYTHING, Outcome.TIMED_OUT, _NO_ANSWER)
        for case in ("the same partition twice", "one of several is nowhere")
    ),
    Allowed(
        "WriteTxnMarkers",
        "negative ids and epochs",
        (0, 2),
        "markers.0.topics.0.partitions.0.error_code",
        42,
        -1,
        "Apache Kafka stumbles over it; Kavka says that there is no such producer",
    ),
    Allowed(
        "WriteTxnMarkers",
        "epochs",
        (0, 0),
        "responses.0.partition_responses.0.log_start_offset",
        -1,
        0,
        "a Produce that 4.3.1 judges: it refuses the batch before its log, which knows its start, "
        "is asked; 3.9.2 asks the log",
    ),
    Allowed("Produce", "null records", (13, 13), "", ANYTHING, Outcome.TIMED_OUT, _NO_ANSWER),
    Allowed(
        "DescribeTopicPartitions", "an empty name*", (0, 0), "topics.*.error_code", 17, -1, _NO_NAME
    ),
    Allowed(
        "DescribeTopicPartitions",
        "an empty name*",
        (0, 0),
        "topics.*.topic_authorized_operations",
        3576,
        -(2**31),
        _NO_NAME,
    ),
    Allowed(
        "DescribeTopicPartitions",
        "past all numbers",
        (0, 0),
        "topics.1",
        ANYTHING,
        "<absent>",
        _OVERFLOW,
    ),
    Allowed(
        "DescribeTopicPartitions",
        "past all numbers",
        (0, 0),
        "next_cursor",
        None,
        ANYTHING,
        _OVERFLOW,
    ),
)


def reason_for(api: str, case: str, version: int, difference: Difference) -> str | None:
    """Why Kavka answers so, if it does on purpose."""
    for entry in ALLOWED:
        if entry.covers(api, case, version, difference):
            return entry.why
    return None
