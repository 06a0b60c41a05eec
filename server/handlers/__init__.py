"""What Kavka does with each API: one module an API, named as in `kavka.wire.apis`.

A handler is a plain function `(broker, context, request) -> answer`. It authorises, asks one
owner, maps the results to partitions and returns; it returns an awaitable only where it must
wait. It touches no bytes and no files, and asks for the version only where the answer differs.
"""

from kavka.server.handlers import (
    alter_configs,
    alter_partition_reassignments,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    incremental_alter_configs,
    init_producer_id,
    list_config_resources,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_for_leader_epoch,
    produce,
)

__all__ = [
    "alter_configs",
    "alter_partition_reassignments",
    "api_versions",
    "create_partitions",
    "create_topics",
    "delete_records",
    "delete_topics",
    "describe_cluster",
    "describe_configs",
    "describe_log_dirs",
    "describe_producers",
    "describe_topic_partitions",
    "elect_leaders",
    "fetch",
    "incremental_alter_configs",
    "init_producer_id",
    "list_config_resources",
    "list_offsets",
    "list_partition_reassignments",
    "metadata",
    "offset_for_leader_epoch",
    "produce",
]
