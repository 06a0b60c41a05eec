"""What there is to know of a broker before it is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kavka.compat_tests.raw.case import PARTITIONS_MAX, Facts, NotPlayable, Outcome, Step
from kavka.compat_tests.raw.codec import wire_client
from kavka.compat_tests.raw.configs import BROKER, described_resource
from kavka.compat_tests.raw.grounds import facts_of, with_coordinators
from kavka.compat_tests.raw.link import Link, answer_of
from kavka.compat_tests.raw.restoring import DESCRIBE, Caretaker
from kavka.compat_tests.raw.waiting import NotInTime
from kavka.wire.known_apis import KNOWN

API_VERSIONS: Final = ("ApiVersions", 0)
CLIENT_QUOTAS: Final = ("DescribeClientQuotas", 0)
OLD_PRODUCE: Final = ("Produce", 0)
SERVED_SINCE: Final = 3
"""What Apache Kafka 4 serves of Produce."""
CREATE_TOPICS: Final = ("CreateTopics", 5)
NEEDED: Final = {"CreateTopics": 5, "DeleteTopics": 3, "Metadata": 1, "Produce": 8}
"""Without these in such a version there is nothing to play cases on."""


class Unsuitable(Exception):
    """Nothing can be checked at this address; the message says why."""


def survey(bootstrap: str, prefix: str) -> Facts:
    """Of the broker at HOST:PORT. Unsuitable."""
    host, _, port = bootstrap.rpartition(":")
    if not host or not port.isdecimal():
        raise Unsuitable(f"{bootstrap!r} is not HOST:PORT")
    with Link(host, int(port)) as link:
        offered = offered_by(link)
        for api, version in NEEDED.items():
            lowest, highest = offered.get(api, (0, -1))
            if not lowest <= version <= highest:
                raise Unsuitable(f"{bootstrap} does not offer {api} in version {version}")
        try:
            facts = replace(facts_of(host, int(port), prefix), offered=offered)
            facts = with_coordinators(facts)
        except (NotInTime, NotPlayable) as failure:
            raise Unsuitable(f"{bootstrap}: {failure}") from failure
        caretaker = Caretaker(link, facts)
        others = facts.others | {*caretaker.topics(), *caretaker.groups()}
        return replace(
            facts,
            others=others,
            settings=settings_of(link, facts),
            has_quotas=has_quotas(link),
            limits_partitions=limits_partitions(link, prefix),
        )


def offered_by(link: Link) -> dict[str, tuple[int, int]]:
    """{API: (lowest, highest version)}; one that has no name is called by its key. Unsuitable."""
    frame = wire_client.framed(wire_client.encode(*API_VERSIONS, 1))
    answer = link.play(Step(frame, API_VERSIONS))
    if isinstance(answer, Outcome) or "unreadable" in answer:
        raise Unsuitable(f"ApiVersions was not answered: {answer}")
    found = {
        _name(api["api_key"]): (api["min_version"], api["max_version"])
        for api in answer["api_keys"]
    }
    if "Produce" in found and not _serves_old_producers(link):
        found["Produce"] = max(found["Produce"][0], SERVED_SINCE), found["Produce"][1]
    return found


def _name(key: int) -> str:
    return KNOWN[key].name if key in KNOWN else f"key {key}"


def _serves_old_producers(link: Link) -> bool:
    """Apache Kafka 4 lists versions of Produce that it does not serve, since old clients fail if
    they do not see them (KAFKA-18659)."""
    fields = {"acks": 1, "timeout_ms": 1000, "topic_data": []}
    frame = wire_client.framed(wire_client.encode(*OLD_PRODUCE, 1, **fields))
    return not isinstance(link.play(Step(frame, OLD_PRODUCE)), Outcome)


def has_quotas(link: Link) -> bool:
    """Whether the broker tells of any; one that does not serve the API has none."""
    answer = answer_of(link, CLIENT_QUOTAS, components=[], strict=False)
    return answer is not None and bool(answer["entries"])


def limits_partitions(link: Link, prefix: str) -> bool:
    """Whether more partitions are refused than Apache Kafka makes; none are made."""
    topic = wire_client.new_topic(f"{prefix}limit", PARTITIONS_MAX + 1, 1)
    answer = answer_of(link, CREATE_TOPICS, timeout_ms=60_000, topics=[topic], validate_only=True)
    return answer is None or any(result["error_code"] for result in answer["topics"])


def settings_of(link: Link, facts: Facts) -> Mapping[str, Any]:
    """The broker's settings by name; empty where it does not describe them."""
    if not facts.offers(*DESCRIBE):
        return {}
    resources = [described_resource(BROKER, str(facts.broker_id))]
    answer = answer_of(link, DESCRIBE, resources=resources)
    if answer is None:
        return {}
    return {config["name"]: config["value"] for config in answer["results"][0]["configs"] or ()}
