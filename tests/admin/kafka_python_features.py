"""kafka-python's KafkaAdminClient: features and the metadata quorum."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from kafka import KafkaAdminClient as Admin

from admin.kafka_python import CLIENT, Returned
from admin.place import Place
from support.wait import eventually

TRANSACTIONS: Final = "transaction.version"

WITHIN_S: Final = 60.0

does = CLIENT.does


@does("describe features")
def _(admin: Admin, place: Place) -> Returned:
    """Without the epoch, which counts what was done to a cluster."""
    return {
        name: {**result, "finalized_epoch": "<an epoch>"}
        for name, result in admin.describe_features().items()
    }


def change_features(*changes: dict[str, Any], **options: Any) -> Callable[[Admin, Place], Returned]:
    """What is answered to each, and which levels it leaves, once the broker knows of them: Apache
    Kafka's follows its controller some time after that has answered."""

    def cell(admin: Admin, place: Place) -> Returned:
        result: list[Any] = []

        def level() -> Any:
            return admin.describe_features()[TRANSACTIONS].get("finalized")

        for change in changes:
            result.append(admin.update_features(change, **options))
            requested = change.get(TRANSACTIONS)
            if requested is not None and not options:
                new = requested[1] if isinstance(requested, tuple) else requested
                known = partial(lambda new: max(level() or (0,)) == new, new)
                eventually(known, within_s=WITHIN_S, what=f"{TRANSACTIONS} is {new}")
            result.append(level())
        return result

    return cell


does("lower a feature's level and raise it")(
    change_features(
        {TRANSACTIONS: ("SAFE_DOWNGRADE", 1)},
        {TRANSACTIONS: ("UNSAFE_DOWNGRADE", 0)},
        {TRANSACTIONS: 2},
    )
)
does("lower a feature's level, only to validate")(
    change_features({TRANSACTIONS: ("SAFE_DOWNGRADE", 1)}, validate_only=True)
)
does("lower a feature's level by an upgrade")(change_features({TRANSACTIONS: 1}))
does("set a feature to a level that there is not")(change_features({TRANSACTIONS: 3}))
does("set the level of metadata that it has")(change_features({"metadata.version": 30}))
does("lower the level of metadata")(change_features({"metadata.version": ("SAFE_DOWNGRADE", 29)}))
does("set an unknown feature's level")(change_features({"no.such": 1}))


@does("describe the metadata quorum")
def _(admin: Admin, place: Place) -> Returned:
    """Who leads and votes, and which fields there are."""
    (topic,) = admin.describe_metadata_quorum()["topics"]
    (partition,) = topic["partitions"]
    voters = [voter["replica_id"] for voter in partition["current_voters"]]
    return topic["topic_name"], partition["leader_id"], voters, sorted(partition)
