"""Java's AdminClient, by Apache Kafka's own command line tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from admin.cells import Client, Failed, cells
from admin.place import Place
from admin.settings import BROKER_SETTING, LOGGER, READ_ONLY_SETTING, chosen, served
from kavka.compat_tests.raw.codec.batches import BASE_TIMESTAMP_MS
from support import kafka_transactions
from support.java_tools import Tools

Returned = Any

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
        printed = {"exit code": finished.exit_code, "output": lines, "errors": complaints}
        raise Failed(error_in([*complaints, *lines]) or f"exit code {finished.exit_code}", printed)
    return lines


printing = cells(run)


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
        place.wait_until_applied()


# -- topics ---------------------------------------------------------------------------------


@cells
def create(tools: Tools, place: Place, label: str, *options: str) -> Returned:
    name = f"--topic={place.topic(label)}"
    printed = changing(tools, place, TOPICS, "--create", name, *options)
    return printed, describe_all(tools, place, label)


def describe_all(tools: Tools, place: Place, label: str) -> Returned:
    return run(tools, place, TOPICS, "--describe", f"--topic={place.topic(label)}")


printing_topic = cells(describe_all)


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
def _(tools: Tools, place: Place) -> Returned:
    here = f"--replica-assignment={place.broker_id},{place.broker_id}"
    return create("assigned", here)(tools, place)


does("list topics")(lambda tools, place: place.own(run(tools, place, TOPICS, "--list")))
does("describe a topic")(printing_topic("a"))


@does("describe a topic by its id")
def _(tools: Tools, place: Place) -> Returned:
    found = _TOPIC_ID.search(describe_all(tools, place, "a")[0])
    assert found is not None
    return run(tools, place, TOPICS, "--describe", f"--topic-id={found[1]}")


@does("describe topics in trouble")
def _(tools: Tools, place: Place) -> Returned:
    troubles = ("under-replicated", "unavailable", "under-min-isr", "at-min-isr")
    flags = [f"--{trouble}-partitions" for trouble in troubles] + ["--topics-with-overrides"]
    name = f"--topic={place.topic('set')}"
    return [run(tools, place, TOPICS, "--describe", name, flag) for flag in flags]


@does("describe topics page by page")
def _(tools: Tools, place: Place) -> Returned:
    limit = "--partition-size-limit-per-response=1"
    names = f"--topic={place.prefix}-a.*"
    return run(tools, place, TOPICS, "--describe", names, limit)


does("describe a missing topic")(printing_topic("none"))


@cells
def add(tools: Tools, place: Place, label: str, *options: str) -> Returned:
    name = f"--topic={place.topic(label)}"
    printed = changing(tools, place, TOPICS, "--alter", name, *options)
    return printed, describe_all(tools, place, label)


does("add partitions")(add("a", "--partitions=4"))
does("add fewer partitions than there are")(add("a", "--partitions=2"))
does("add partitions to a missing topic")(add("none", "--partitions=2"))


@does("add partitions with an assignment")
def _(tools: Tools, place: Place) -> Returned:
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


@cells
def alter_topic(tools: Tools, place: Place, label: str, *changes: str) -> Returned:
    entity = of_topic(place, label)
    printed = changing(tools, place, CONFIGS, "--alter", *entity, *changes)
    return printed, run(tools, place, CONFIGS, "--describe", *entity)


@cells
def alter_broker(tools: Tools, place: Place, *changes: str) -> Returned:
    entity = of_broker(place)
    printed = changing(tools, place, CONFIGS, "--alter", *entity, *changes)
    return printed, settings(tools, place, *entity)[BROKER_SETTING]


does("describe a topic's settings")(
    lambda tools, place: settings(tools, place, *of_topic(place, "set"))
)
does("describe a missing topic's settings")(
    lambda tools, place: settings(tools, place, *of_topic(place, "none"))
)
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
does("describe a broker's settings")(
    lambda tools, place: chosen(settings(tools, place, *of_broker(place)))
)


@does("set all brokers' setting")
def _(tools: Tools, place: Place) -> Returned:
    everyone = ("--entity-type=brokers", "--entity-default")
    printed = []
    for change in (f"--add-config={BROKER_SETTING}=1400000", f"--delete-config={BROKER_SETTING}"):
        printed += changing(tools, place, CONFIGS, "--alter", *everyone, change)
        lines = run(tools, place, CONFIGS, "--describe", *everyone)
        printed += [line for line in lines if BROKER_SETTING in line or not line.startswith("  ")]
        printed.append(settings(tools, place, *of_broker(place))[BROKER_SETTING])
    return printed


def of_loggers(place: Place) -> list[str]:
    return ["--entity-type=broker-loggers", f"--entity-name={place.broker_id}"]


@does("describe a broker's loggers")
def _(tools: Tools, place: Place) -> Returned:
    lines = run(tools, place, CONFIGS, "--describe", *of_loggers(place))
    return [line for line in lines if line.startswith((f"  {LOGGER}=", "Dynamic"))]


@does("set a logger's level")
def _(tools: Tools, place: Place) -> Returned:
    change = f"--add-config={LOGGER}=ERROR"
    printed = changing(tools, place, CONFIGS, "--alter", *of_loggers(place), change)
    lines = run(tools, place, CONFIGS, "--describe", *of_loggers(place))
    return printed, [line for line in lines if line.startswith(f"  {LOGGER}=")]


# -- partitions -----------------------------------------------------------------------------


@cells
def offsets(tools: Tools, place: Place, label: str, *times: Any) -> Returned:
    name = f"--topic={place.topic(label)}"
    return [run(tools, place, OFFSETS, name, f"--time={time}") for time in times]


does("first and last offsets")(offsets("data", "earliest", "latest", "max-timestamp", "-1", "-3"))
does("offsets by time")(offsets("data", *(BASE_TIMESTAMP_MS + delta for delta in (0, 5, 20, 21))))
does("offsets of a missing topic")(offsets("none", "latest"))


@does("describe log directories")
def _(tools: Tools, place: Place) -> Returned:
    name = f"--topic-list={place.topic('data')}"
    *lines, found = run(tools, place, LOG_DIRS, "--describe", name)
    printed = json.loads(found)
    for directory in printed["brokers"][0]["logDirs"]:
        directory["partitions"].sort(key=lambda partition: partition["partition"])
    return lines, printed


@cells
def elect(tools: Tools, place: Place, kind: str, *partition: str) -> Returned:
    named_by = [f"--topic={place.topic('data')}", *partition] if partition else []
    whom = named_by or ["--all-topic-partitions"]
    return changing(tools, place, ELECTION, f"--election-type={kind}", *whom)


does("elect preferred leaders")(elect("preferred", "--partition=0"))
does("elect preferred leaders of all partitions")(elect("preferred"))
does("elect leaders uncleanly")(elect("unclean", "--partition=0"))
does("elect a missing partition's leader")(elect("preferred", "--partition=99"))


def reassign(tools: Tools, place: Place, replica: int, *step: str) -> Returned:
    partition = {"topic": place.topic("data"), "partition": 0, "replicas": [replica]}
    plan = place.folder / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    return changing(tools, place, REASSIGN, *step, f"--reassignment-json-file={plan}")


@does("plan a reassignment")
def _(tools: Tools, place: Place) -> Returned:
    topics = place.folder / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": place.topic("data")}]}))
    brokers = f"--broker-list={place.broker_id}"
    options = ("--generate", f"--topics-to-move-json-file={topics}", brokers)
    return run(tools, place, REASSIGN, *options)


@does("reassign a partition with a throttle")
def _(tools: Tools, place: Place) -> Returned:
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
def _(tools: Tools, place: Place) -> Returned:
    steps = ("--execute", "--verify")
    return [reassign(tools, place, place.broker_id, step) for step in steps]


does("reassign a partition to an unknown broker")(
    lambda tools, place: reassign(tools, place, 99, "--execute")
)
does("list reassignments")(printing(REASSIGN, "--list"))
does("cancel a reassignment")(
    lambda tools, place: reassign(tools, place, place.broker_id, "--cancel")
)


@does("describe producers")
def _(tools: Tools, place: Place) -> Returned:
    arguments = ("describe-producers", f"--topic={place.topic('data')}", "--partition=0")
    return run(tools, place, kafka_transactions.TOOL, *arguments)


@does("delete records")
def _(tools: Tools, place: Place) -> Returned:
    plan = place.folder / "offsets.json"
    partition = {"topic": place.topic("data"), "partition": 0, "offset": 1}
    plan.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    return run(tools, place, DELETE_RECORDS, f"--offset-json-file={plan}")


# -- cluster --------------------------------------------------------------------------------


@does("describe the cluster")
def _(tools: Tools, place: Place) -> Returned:
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
def _(tools: Tools, place: Place) -> Returned:
    lines = run(tools, place, API_VERSIONS)
    return served({found[1]: found[2] for found in map(_VERSIONS.match, lines) if found})


does("describe access rules")(printing(RULES, "--list"))
does("describe client quotas")(printing(CONFIGS, "--describe", "--entity-type=clients"))
does("describe SCRAM users")(printing(CONFIGS, "--describe", "--entity-type=users"))


# -- the end --------------------------------------------------------------------------------


@does("delete a topic")
def _(tools: Tools, place: Place) -> Returned:
    printed = changing(tools, place, TOPICS, "--delete", f"--topic={place.topic('a')}")
    return printed, place.own(run(tools, place, TOPICS, "--list"))


does("delete a missing topic")(
    lambda tools, place: run(tools, place, TOPICS, "--delete", f"--topic={place.topic('none')}")
)
