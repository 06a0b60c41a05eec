"""Where a recorded session goes another way with Kavka as the broker, and why."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from commands.recorded import Run

WORD: Final = re.compile(r"[\w.@:/=,-]+")

OWN_FORM: Final[Mapping[str, str]] = {
    "kafka-broker-api-versions --bootstrap-server BROKER": "other APIs and versions",
    "kafka-features --bootstrap-server BROKER describe": "other features",
    "kafka-features --bootstrap-server BROKER --command-config FILES/client.properties describe": (
        "other features"
    ),
    "kafka-configs --bootstrap-server BROKER --describe --entity-type brokers --entity-name 1"
    " --all": "other settings",
}
"""Lines that Kavka as the broker answers in the same form, and what differs."""

INDEX: Final = "DATA/orders-1/00000000000000000000.index"
TIME_INDEX: Final = "DATA/orders-1/00000000000000000000.timeindex"

OWN_WORDS: Final[Mapping[str, str]] = {
    "kafka-cluster unregister --bootstrap-server BROKER --id 77": (
        "The target cluster does not support the broker unregistration API.\n"
    ),
    # Its index files are not allocated in advance.
    f"kafka-dump-log --files {INDEX},{TIME_INDEX}": (
        f"Dumping {INDEX}\n{INDEX} is empty.\nDumping {TIME_INDEX}\n"
    ),
}
"""What is printed of Kavka as the broker where that is the truth of it; the exit code is 0."""

NOT_YET: Final = ("--entity-name alice", "--client slow", "kafka-acls")
"""Of lines that need what Kavka as the broker lacks: refused, with exit code 1."""


LEVEL: Final = ", ApiMessageAndVersion(FeatureLevelRecord(name='{}', featureLevel={}) at version 0)"
LACKING: Final = ("eligible.leader.replicas.version", "share.version", "streams.version")
"""Features that Kavka does not have, of those that Apache Kafka formats directories with."""

FORMATS: Final = ("kafka-storage format", "kafka-storage info")
"""What Kavka's own tool answers in the same form with what is true of Kavka, whatever the
broker."""


def true_of_kavka(text: str) -> str:
    """What Apache Kafka's kafka-storage has printed, with KRaft's own replaced: features that Kavka
    lacks, kinds of directories, and the version of `meta.properties`, which is that of clusters
    with ZooKeeper."""
    for name in LACKING:
        text = text.replace(LEVEL.format(name, 1), "")
    text = text.replace("dynamic metadata voter directory", "metadata directory")
    return re.sub(
        r"\{cluster.id=(.*), node.id=(\d+), version=1\}",
        r"{broker.id=\2, cluster.id=\1, version=0}",
        text,
    )


def expected_of_own_tool(recorded: Run) -> Run:
    """What should become of a recorded run with Kavka's tool, where that is another."""
    if recorded.line.startswith(FORMATS):
        return recorded._replace(printed=true_of_kavka(recorded.printed))
    return recorded


def expected_of_kavka(recorded: Run, found: Run) -> Run:
    """What should become of a recorded run with Kavka as the broker, where that is another."""
    if is_refused(recorded):
        return recorded._replace(printed=found.printed, exit_code=1)
    if recorded.line in OWN_WORDS:
        return recorded._replace(printed=OWN_WORDS[recorded.line], exit_code=0)
    if recorded.line in OWN_FORM and _forms(found.printed) <= _forms(recorded.printed):
        return recorded._replace(printed=found.printed)
    return recorded


def is_refused(run: Run) -> bool:
    """Whether Kavka as the broker lacks what it needs."""
    return any(words in run.line for words in NOT_YET)


def _forms(text: str) -> set[str]:
    return {WORD.sub("w", line) for line in text.splitlines()}
