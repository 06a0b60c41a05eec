"""Where another answer than Apache Kafka's is right as well: the protocol leaves it open.

Each entry has its reason. Where a broker is simply different there is no entry, so that it is
reported; what differs between any two brokers by its nature is in `nature.py`, where paths are
described. An entry is for an API's own cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias
from uuid import UUID

from kavka.compat_tests.raw.case import Outcome
from kavka.compat_tests.raw.differences import ABSENT
from kavka.compat_tests.raw.outcomes import Failure

UNKNOWN_SERVER_ERROR: Final = -1

Test: TypeAlias = Callable[[Any, Any], bool]
"""Of what was answered and what Apache Kafka answers."""


def anything(answered: Any, expected: Any) -> bool:
    return True


def _where_kafka_is_silent(answered: Any, expected: Any) -> bool:
    return expected is Outcome.TIMED_OUT


def _an_error_that_says_more(answered: Any, expected: Any) -> bool:
    return expected == UNKNOWN_SERVER_ERROR and isinstance(answered, int) and answered > 0


def _the_same_but_for_odd_characters(answered: Any, expected: Any) -> bool:
    odd = "\ufffd"
    both = isinstance(answered, str) and isinstance(expected, str)
    return both and answered.rstrip(odd) == expected.rstrip(odd) and answered.endswith(odd)


def _both_are_nothing(answered: Any, expected: Any) -> bool:
    return not answered and not expected


def _that_is_missing(answered: Any, expected: Any) -> bool:
    return bool(answered == ABSENT)


def _both_are_ids(answered: Any, expected: Any) -> bool:
    return all(isinstance(value, UUID) and value.int >> 64 for value in (answered, expected))


def _more_than_nothing(answered: Any, expected: Any) -> bool:
    return expected in (None, ABSENT)


def _shape(path: str) -> str:
    """A path with one digit for every index, as `?` stands for."""
    return ".".join(part[0] if part.isdecimal() else part for part in path.split("."))


@dataclass(frozen=True)
class Accepted:
    """Differences at `path` in the cases and versions (first, last) that match."""

    path: str
    why: str
    test: Test = anything
    api: str = "*"
    asked: str = "*"
    """The API of the request whose answer it is."""
    cases: str = "*"
    versions: tuple[int, int] = (0, 1 << 15)

    def covers(self, api: str, version: int, failure: Failure) -> bool:
        first, last = self.versions
        return (
            first <= version <= last
            and fnmatchcase(api, self.api)
            and fnmatchcase(failure.asked, self.asked)
            and fnmatchcase(failure.case, self.cases)
            and fnmatchcase(_shape(failure.path), self.path)
            and self.test(failure.answered, failure.expected)
        )


ACCEPTED: Final[tuple[Accepted, ...]] = (
    Accepted(
        "",
        "Apache Kafka fails in a way that leaves the request without an answer",
        _where_kafka_is_silent,
    ),
    Accepted(
        "*error_code",
        "Apache Kafka stumbles, and answers a server error; another code says what is wrong",
        _an_error_that_says_more,
    ),
    Accepted("*error_message", "texts are for people: the protocol does not say which words"),
    Accepted("api_keys*", "a broker offers the APIs and versions that it has", asked="ApiVersions"),
    Accepted("*_features*", "a broker has the features that it has", asked="ApiVersions"),
    Accepted(
        "*name",
        "half of a surrogate pair is unreadable: to some as three bytes, to others as a character",
        _the_same_but_for_odd_characters,
        cases="a topic's name: half of a surrogate pair",
    ),
    Accepted(
        "*topic",
        "half of a surrogate pair is unreadable: to some as three bytes, to others as a character",
        _the_same_but_for_odd_characters,
        cases="a topic's name: half of a surrogate pair",
    ),
    *(
        Accepted(
            f"topics.0.{path}",
            "how many partitions the topics of coordinators have, and what lies in them, is theirs",
            api=api,
            cases=cases,
        )
        for api, cases, path in (
            ("ListOffsets", "topic '__consumer_offsets'", "partitions.*.offset"),
            ("ListOffsets", "topic '__consumer_offsets'", "partitions.*.old_style_offsets.*"),
            ("OffsetForLeaderEpoch", "topic '__consumer_offsets'", "partitions.*.end_offset"),
            ("DescribeTopicPartitions", "an internal topic", "partitions*"),
        )
    ),
    *(
        Accepted(
            f"*records.batches.?.{field}",
            "other libraries compress to other bytes, which inflate to the same",
        )
        for field in ("packed", "batch_length")
    ),
    Accepted(
        "results.0.configs.*",
        "a broker has the settings that it has",
        _that_is_missing,
        asked="DescribeConfigs",
        cases="the broker",
    ),
    *(
        Accepted(
            f"results.0.configs.*.{field}",
            "a broker's settings have the values that they have",
            asked="DescribeConfigs",
            cases=cases,
        )
        for cases in ("the broker", "a group", "configs of a group come and go")
        for field in ("value", "config_source", "is_default", "read_only", "synonyms*")
    ),
    Accepted(
        "client_instance_id",
        "it is what the client has drawn",
        _both_are_ids,
        asked="GetTelemetrySubscriptions",
    ),
    Accepted(
        "subscription_id",
        "a broker may choose it, and derive it from the client's id",
        asked="GetTelemetrySubscriptions",
    ),
    Accepted(
        "topics.0.partitions.0.current_voters.?.replica_directory_id",
        "a controller may be known by its id alone, as KRaft's static voters are",
        api="DescribeQuorum",
    ),
    *(
        Accepted(
            f"nodes.?.listeners.?.{field}",
            "a controller listens where its configuration says",
            api="DescribeQuorum",
        )
        for field in ("name", "host", "port")
    ),
    Accepted(
        "responses.?.partitions.?.records",
        "beside an error there are no records, be they null or none",
        _both_are_nothing,
        api="Fetch",
    ),
    Accepted(
        "responses.0.partition_responses.0.log_start_offset",
        "a broker may refuse a batch before it asks the log where that starts, as 4.3.1 does",
        api="WriteTxnMarkers",
        asked="Produce",
        cases="epochs",
    ),
    Accepted(
        "topics.?.topic_authorized_operations",
        "without a cursor Apache Kafka takes the empty name for the cursor's, and then fails",
        api="DescribeTopicPartitions",
        cases="an empty name*",
    ),
    *(
        Accepted(
            path,
            "the end of the page overflows in Apache Kafka, whose next cursor it refuses itself",
            api="DescribeTopicPartitions",
            cases="past all numbers",
        )
        for path in ("topics.1", "next_cursor")
    ),
    Accepted(
        "responses.?.partitions.0.records.messages.*",
        "the first batch is given whole in old versions too; Apache Kafka gives nothing, forever",
        _more_than_nothing,
        api="Fetch",
        versions=(0, 2),
    ),
    Accepted(
        "results.*.is_default",
        "Apache Kafka 3.9.2 no longer fills this field of the oldest version",
        api="DescribeConfigs",
        versions=(0, 0),
    ),
)


def is_accepted(api: str, version: int, failure: Failure) -> bool:
    """Whether a difference in a case of this API is right as well."""
    return any(entry.covers(api, version, failure) for entry in ACCEPTED)
