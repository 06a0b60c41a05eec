"""Java's AdminClient, by Apache Kafka's own command line tools."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from admin.cells import Client, Failed
from admin.place import Place
from admin.settings import BROKER_SETTING, LOGGER, READ_ONLY_SETTING, chosen, served
from support import kafka_transactions
from support.batches import BASE_TIMESTAMP_MS
from support.java_tools import Tools

Told = Any

PACKAGE: Final = "org.apache.kafka.tools"
TOPICS: Final = f"{PACKAGE}.TopicCommand"
CONFIGS: Final = "kafka.admin.ConfigCommand"
LOG_DIRS: Final = f"{PACKAGE}.LogDirsCommand"
API_VERSIONS: Final = f"{PACKAGE}.BrokerApiVersionsCommand"
OFFSETS: Final = f"{PACKAGE}.GetOffsetShell"
ELECTION: Final = f"{PACKAGE}.LeaderElectionCommand"
REASSIGN: Final = f"{PACKAGE}.reassign.ReassignPartitionsCommand"
CLUSTER: Final = f"{PACKAGE}.ClusterTool"
DELETE_RECORDS: Final = f"{PACKAGE}.DeleteRecordsCommand"
RULES: Final = f"{PACKAGE}.AclCommand"

_KAFKA_ERROR: Final = re.compile(r"org\.apache\.kafka\.common\.\w+\.(\w+Exception)\b")
_ERROR: Final = re.compile(r"\b(?:\w+\.)*(\w+(?:Exception|Error))\b")
_TOPIC_ID: Final = re.compile(r"TopicId: (\S+)")
_TRACE: Final = re.compile(r"\s+(?:at |\.\.\. \d+ more)")
_VERSIONS: Final = re.compile(r"\t(\w+)\(\d+\): .*\[usable: (\d+)\]")
_SETTING: Final = re.compile(r"  ([a-z0-9.]+)=(.*)")


@contextmanager
def opened(place: Place) -> Iterator[Tools]:
    with Tools(place.folder / "tools.log") as tools:
        yield tools


def named(failure: Exception) -> tuple[str, Any]:
    return type(failure).__name__, str(failure)


CLIENT = Client("Java's tools", "jt", opened, named)
does = CLIENT.does


def run(
    tools: Tools, place: Place, tool: str, *arguments: str, option: str = "--bootstrap-server"
) -> list[str]:
    """The lines that a tool prints; Failed when it complains."""
    finished = tools.run(tool, option, place.bootstrap, *arguments)
    lines = without_traces(finished.text)
    complaints = without_traces(finished.stderr)
    if finished.exit_code or complaints or any(map(_KAFKA_ERROR.search, lines)):
        told = {"exit code": finished.exit_code, "output": lines, "errors": complaints}
        raise Failed(error_in([*complaints, *lines]) or f"exit code {finished.exit_code}", told)
    return lines


def without_traces(text: str) -> list[str]:
    return [line for line in text.splitlines() if not _TRACE.match(line)]


def error_in(lines: list[str]) -> str | None:
    """The error that the broker gave, or else the first one."""
    for pattern in (_KAFKA_ERROR, _ERROR):
        for line in lines:
            if found := pattern.search(line):
                return found[1]
    return None


def changing(
    tools: Tools, place: Place, tool: str, *arguments: str, option: str = "--bootstrap-server"
) -> list[str]:
    try:
        return run(tools, place, tool, *arguments, option=option)
    finally:
        place.settle()


# -- topics ---------------------------------------------------------------------------------


def create(label: str, *options: str) -> Callable[[Tools, Place], Told]:
    def cell(tools: Tools, place: Place) -> Told:
        name = f"--topic={place.topic(label)}"
        told = changing(tools, place, TOPICS, "--create", name, *options)
        return told, describe_all(tools, place, label)

    return cell


def describe_all(tools: Tools, place: Place, label: str) -> Told:
    return run(tools, place, TOPICS, "--describe", f"--topic={place.topic(label)}")


does("create a topic")(create("a", "--partitions=2", "--replication-factor=1"))
does("create a topic with settings")(
    create("set", "--config=retention.ms=60000", "--config=cleanup.policy=compact,delete")
)
does("create a topic with the broker's defaults")(create("default"))
does("create a topic that is there")(create("a"))
does("create a topic with a bad name")(create("bad/name"))
does("create a topic with too many replicas")(create("never", "--replication-factor=2"))
does("create a topic without partitions")(create("never", "--partitions=0"))
does("create a topic on an unknown broker")(create("never", "--replica-assignment=99"))
does("create a topic with an unknown setting")(create("never", "--config=no.such=1"))
does("create a topic with a bad value")(create("never", "--config=retention.ms=soon"))


@does("create a topic with an assignment")
def _(tools: Tools, place: Place) -> Told:
    here = f"--replica-assignment={place.broker_id},{place.broker_id}"
    return create("assigned", here)(tools, place)


@does("list topics")
def _(tools: Tools, place: Place) -> Told:
    return place.own(run(tools, place, TOPICS, "--list"))


@does("describe a topic")
def _(tools: Tools, place: Place) -> Told:
    return describe_all(tools, place, "a")


@does("describe a topic by its id")
def _(tools: Tools, place: Place) -> Told:
    found = _TOPIC_ID.search(describe_all(tools, place, "a")[0])
    assert found is not None
    return run(tools, place, TOPICS, "--describe", f"--topic-id={found[1]}")


@does("describe topics in trouble")
def _(tools: Tools, place: Place) -> Told:
    troubles = ("under-replicated", "unavailable", "under-min-isr", "at-min-isr")
    flags = [f"--{trouble}-partitions" for trouble in troubles] + ["--topics-with-overrides"]
    name = f"--topic={place.topic('set')}"
    return [run(tools, place, TOPICS, "--describe", name, flag) for flag in flags]


@does("describe topics page by page")
def _(tools: Tools, place: Place) -> Told:
    limit = "--partition-size-limit-per-response=1"
    names = f"--topic={place.prefix}-a.*"
    return run(tools, place, TOPICS, "--describe", names, limit)


@does("describe a missing topic")
def _(tools: Tools, place: Place) -> Told:
    return describe_all(tools, place, "none")


def add(label: str, *options: str) -> Callable[[Tools, Place], Told]:
    def cell(tools: Tools, place: Place) -> Told:
        name = f"--topic={place.topic(label)}"
        told = changing(tools, place, TOPICS, "--alter", name, *options)
        return told, describe_all(tools, place, label)

    return cell


does("add partitions")(add("a", "--partitions=4"))
does("add fewer partitions than there are")(add("a", "--partitions=2"))
does("add partitions to a missing topic")(add("none", "--partitions=2"))


@does("add partitions with an assignment")
def _(tools: Tools, place: Place) -> Told:
    assignment = ",".join([str(place.broker_id)] * 5)
    options = ("--partitions=5", f"--replica-assignment={assignment}")
    return add("a", *options)(tools, place)


# -- settings -------------------------------------------------------------------------------


def settings(tools: Tools, place: Place, *entity: str) -> dict[str, str]:
    """All settings, by name, as the tool prints them."""
    lines = run(tools, place, CONFIGS, "--describe", "--all", *entity)
    return {found[1]: found[2] for found in map(_SETTING.fullmatch, lines) if found}


def of_topic(place: Place, label: str) -> list[str]:
    return ["--entity-type=topics", f"--entity-name={place.topic(label)}"]


def of_broker(place: Place) -> list[str]:
    return ["--entity-type=brokers", f"--entity-name={place.broker_id}"]


def alter_topic(label: str, *changes: str) -> Callable[[Tools, Place], Told]:
    def cell(tools: Tools, place: Place) -> Told:
        entity = of_topic(place, label)
        told = changing(tools, place, CONFIGS, "--alter", *entity, *changes)
        return told, run(tools, place, CONFIGS, "--describe", *entity)

    return cell


def alter_broker(*changes: str) -> Callable[[Tools, Place], Told]:
    def cell(tools: Tools, place: Place) -> Told:
        entity = of_broker(place)
        told = changing(tools, place, CONFIGS, "--alter", *entity, *changes)
        return told, settings(tools, place, *entity)[BROKER_SETTING]

    return cell


@does("describe a topic's settings")
def _(tools: Tools, place: Place) -> Told:
    return settings(tools, place, *of_topic(place, "set"))


@does("describe a missing topic's settings")
def _(tools: Tools, place: Place) -> Told:
    return settings(tools, place, *of_topic(place, "none"))


does("set a topic's settings")(
    alter_topic("a", "--add-config=retention.ms=1000,max.message.bytes=2000")
)
does("delete a topic's setting")(alter_topic("a", "--delete-config=retention.ms"))
does("set an unknown setting")(alter_topic("a", "--add-config=no.such=1"))
does("set a bad value")(alter_topic("a", "--add-config=retention.ms=soon"))
does("set a missing topic's settings")(alter_topic("none", "--add-config=retention.ms=1"))
does("set a broker's setting")(alter_broker(f"--add-config={BROKER_SETTING}=1500000"))
does("delete a broker's setting")(alter_broker(f"--delete-config={BROKER_SETTING}"))
does("set a broker's read-only setting")(alter_broker(f"--add-config={READ_ONLY_SETTING}=7"))


@does("describe a broker's settings")
def _(tools: Tools, place: Place) -> Told:
    return chosen(settings(tools, place, *of_broker(place)))


@does("set all brokers' setting")
def _(tools: Tools, place: Place) -> Told:
    everyone = ("--entity-type=brokers", "--entity-default")
    told = []
    for change in (f"--add-config={BROKER_SETTING}=1400000", f"--delete-config={BROKER_SETTING}"):
        told += changing(tools, place, CONFIGS, "--alter", *everyone, change)
        lines = run(tools, place, CONFIGS, "--describe", *everyone)
        told += [line for line in lines if BROKER_SETTING in line or not line.startswith("  ")]
        told.append(settings(tools, place, *of_broker(place))[BROKER_SETTING])
    return told


def of_loggers(place: Place) -> list[str]:
    return ["--entity-type=broker-loggers", f"--entity-name={place.broker_id}"]


@does("describe a broker's loggers")
def _(tools: Tools, place: Place) -> Told:
    lines = run(tools, place, CONFIGS, "--describe", *of_loggers(place))
    return [line for line in lines if line.startswith((f"  {LOGGER}=", "Dynamic"))]


@does("set a logger's level")
def _(tools: Tools, place: Place) -> Told:
    change = f"--add-config={LOGGER}=ERROR"
    told = changing(tools, place, CONFIGS, "--alter", *of_loggers(place), change)
    lines = run(tools, place, CONFIGS, "--describe", *of_loggers(place))
    return told, [line for line in lines if line.startswith(f"  {LOGGER}=")]


# -- partitions -----------------------------------------------------------------------------


def offsets(tools: Tools, place: Place, label: str, *times: Any) -> Told:
    name = f"--topic={place.topic(label)}"
    return [run(tools, place, OFFSETS, name, f"--time={time}") for time in times]


@does("first and last offsets")
def _(tools: Tools, place: Place) -> Told:
    return offsets(tools, place, "data", "earliest", "latest", "max-timestamp", "-1", "-3")


@does("offsets by time")
def _(tools: Tools, place: Place) -> Told:
    return offsets(tools, place, "data", *(BASE_TIMESTAMP_MS + delta for delta in (0, 5, 20, 21)))


@does("offsets of a missing topic")
def _(tools: Tools, place: Place) -> Told:
    return offsets(tools, place, "none", "latest")


@does("describe log directories")
def _(tools: Tools, place: Place) -> Told:
    name = f"--topic-list={place.topic('data')}"
    *lines, found = run(tools, place, LOG_DIRS, "--describe", name)
    told = json.loads(found)
    for directory in told["brokers"][0]["logDirs"]:
        directory["partitions"].sort(key=lambda one: one["partition"])
    return lines, told


def elect(kind: str, *partition: str) -> Callable[[Tools, Place], Told]:
    def cell(tools: Tools, place: Place) -> Told:
        named_by = [f"--topic={place.topic('data')}", *partition] if partition else []
        whom = named_by or ["--all-topic-partitions"]
        return changing(tools, place, ELECTION, f"--election-type={kind}", *whom)

    return cell


does("elect preferred leaders")(elect("preferred", "--partition=0"))
does("elect preferred leaders of all partitions")(elect("preferred"))
does("elect leaders uncleanly")(elect("unclean", "--partition=0"))
does("elect a missing partition's leader")(elect("preferred", "--partition=99"))


def reassign(tools: Tools, place: Place, replica: int, *step: str) -> Told:
    partition = {"topic": place.topic("data"), "partition": 0, "replicas": [replica]}
    plan = place.folder / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    return changing(tools, place, REASSIGN, *step, f"--reassignment-json-file={plan}")


@does("plan a reassignment")
def _(tools: Tools, place: Place) -> Told:
    topics = place.folder / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": place.topic("data")}]}))
    brokers = f"--broker-list={place.broker_id}"
    options = ("--generate", f"--topics-to-move-json-file={topics}", brokers)
    return run(tools, place, REASSIGN, *options)


@does("reassign a partition with a throttle")
def _(tools: Tools, place: Place) -> Told:
    steps = (("--execute", "--throttle=1000000"), ("--verify",))
    return [
        (
            reassign(tools, place, place.broker_id, *step),
            run(tools, place, CONFIGS, "--describe", *of_broker(place)),
            run(tools, place, CONFIGS, "--describe", *of_topic(place, "data")),
        )
        for step in steps
    ]


@does("reassign a partition to where it is")
def _(tools: Tools, place: Place) -> Told:
    steps = ("--execute", "--verify")
    return [reassign(tools, place, place.broker_id, step) for step in steps]


@does("reassign a partition to an unknown broker")
def _(tools: Tools, place: Place) -> Told:
    return reassign(tools, place, 99, "--execute")


@does("list reassignments")
def _(tools: Tools, place: Place) -> Told:
    return run(tools, place, REASSIGN, "--list")


@does("cancel a reassignment")
def _(tools: Tools, place: Place) -> Told:
    return reassign(tools, place, place.broker_id, "--cancel")


@does("describe producers")
def _(tools: Tools, place: Place) -> Told:
    asked = ("describe-producers", f"--topic={place.topic('data')}", "--partition=0")
    return run(tools, place, kafka_transactions.TOOL, *asked)


@does("delete records")
def _(tools: Tools, place: Place) -> Told:
    plan = place.folder / "offsets.json"
    partition = {"topic": place.topic("data"), "partition": 0, "offset": 1}
    plan.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    return run(tools, place, DELETE_RECORDS, f"--offset-json-file={plan}")


# -- cluster --------------------------------------------------------------------------------


@does("describe the cluster")
def _(tools: Tools, place: Place) -> Told:
    found = []
    for command in (
        ["cluster-id"],
        ["list-endpoints"],
        ["list-endpoints", "--include-fenced-brokers"],
    ):
        finished = tools.run(CLUSTER, *command, "--bootstrap-server", place.bootstrap)
        found.append((finished.exit_code, finished.text.split(), finished.stderr))
    return found


@does("API versions")
def _(tools: Tools, place: Place) -> Told:
    lines = run(tools, place, API_VERSIONS)
    return served({found[1]: found[2] for found in map(_VERSIONS.match, lines) if found})


@does("describe access rules")
def _(tools: Tools, place: Place) -> Told:
    return run(tools, place, RULES, "--list")


@does("describe client quotas")
def _(tools: Tools, place: Place) -> Told:
    return run(tools, place, CONFIGS, "--describe", "--entity-type=clients")


@does("describe SCRAM users")
def _(tools: Tools, place: Place) -> Told:
    return run(tools, place, CONFIGS, "--describe", "--entity-type=users")


# -- the end --------------------------------------------------------------------------------


@does("delete a topic")
def _(tools: Tools, place: Place) -> Told:
    told = changing(tools, place, TOPICS, "--delete", f"--topic={place.topic('a')}")
    return told, place.own(run(tools, place, TOPICS, "--list"))


@does("delete a missing topic")
def _(tools: Tools, place: Place) -> Told:
    return run(tools, place, TOPICS, "--delete", f"--topic={place.topic('none')}")
