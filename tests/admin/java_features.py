"""Java's AdminClient: features and the metadata quorum, by kafka-features and
kafka-metadata-quorum."""

from __future__ import annotations

import json
import re
from typing import Final

from admin.cells import cells
from admin.java_tools import CLIENT, PACKAGE, Returned, run
from admin.place import Place
from support.java_tools import Tools

FEATURES: Final = f"{PACKAGE}.FeatureCommand"
QUORUM: Final = f"{PACKAGE}.MetadataQuorumCommand"
TRANSACTIONS: Final = "transaction.version"
OF_ONE_CLUSTER: Final = ("ClusterId", "LeaderEpoch", "HighWatermark", "CurrentVoters")
"""What kafka-metadata-quorum says that is of one cluster alone."""

_FEATURE: Final = re.compile(r"Feature: (\S+)\s+(.*)\s+Epoch: \d+")

does = CLIENT.does


@does("describe features")
def _(tools: Tools, place: Place) -> Returned:
    """Without the epoch, which counts what was done to a cluster."""
    lines = run(tools, place, FEATURES, "describe")
    return {found[1]: found[2].split() for found in map(_FEATURE.match, lines) if found}


@cells
def change_features(tools: Tools, place: Place, *changes: tuple[str, ...]) -> Returned:
    """What kafka-features says to each, and which levels it leaves."""
    printed = []
    for change in changes:
        printed.append(run(tools, place, FEATURES, *change))
        lines = run(tools, place, FEATURES, "describe")
        printed.append([line.split("Epoch")[0] for line in lines if TRANSACTIONS in line])
    return printed


does("lower a feature's level and raise it")(
    change_features(
        ("downgrade", "--feature", f"{TRANSACTIONS}=1"),
        ("downgrade", "--unsafe", "--feature", f"{TRANSACTIONS}=0"),
        ("upgrade", "--feature", f"{TRANSACTIONS}=2"),
    )
)
does("lower a feature's level, only to validate")(
    change_features(("downgrade", "--dry-run", "--feature", f"{TRANSACTIONS}=1"))
)
does("lower a feature's level by an upgrade")(
    change_features(("upgrade", "--feature", f"{TRANSACTIONS}=1"))
)
does("set a feature to a level that there is not")(
    change_features(("upgrade", "--feature", f"{TRANSACTIONS}=3"))
)
does("set the level of metadata that it has")(
    change_features(("upgrade", "--feature", "metadata.version=30"))
)
does("lower the level of metadata")(
    change_features(("downgrade", "--feature", "metadata.version=29"))
)
does("set an unknown feature's level")(change_features(("upgrade", "--feature", "no.such=1")))


@does("describe the metadata quorum")
def _(tools: Tools, place: Place) -> Returned:
    """Who leads and votes, and the titles of what counts how much was done to a cluster."""
    status = dict(line.split(":", 1) for line in run(tools, place, QUORUM, "describe", "--status"))
    printed = {name: value.strip() for name, value in status.items() if name not in OF_ONE_CLUSTER}
    voters = [voter["id"] for voter in json.loads(status["CurrentVoters"])]
    head, *replicas = run(tools, place, QUORUM, "describe", "--replication")
    states = [(line.split()[0], line.split()[-1]) for line in replicas]
    return list(status), printed, voters, head.split(), states
