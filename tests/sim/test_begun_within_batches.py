"""A log may begin within a batch, after DeleteRecords: its new replicas begin with all of it."""

from __future__ import annotations

from kavka.wire.errors import ErrorCode as Code
from sim.cluster import TOPIC, Cluster, live
from sim.test_reassignment import reassign
from support import logs

RECORDS = 10
DELETED = 5


async def main(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.create([1, 2])
    await cluster.in_sync(1, 2)
    leader = cluster.machine((await cluster.partition()).leader_id)
    batch = logs.batch([b"%d" % number for number in range(RECORDS)])
    data = {"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}
    written = await cluster.ask(
        leader, "Produce", 9, transactional_id=None, acks=-1, timeout_ms=5000, topic_data=[data]
    )
    assert written.responses[0].partition_responses[0].error_code == Code.NONE
    topic = {"name": TOPIC, "partitions": [{"partition_index": 0, "offset": DELETED}]}
    deleted = await cluster.ask(leader, "DeleteRecords", 1, topics=[topic], timeout_ms=5000)
    assert deleted.topics[0].partitions[0].error_code == Code.NONE
    assert await reassign(cluster, 0, [1, 2, 3]) == Code.NONE
    await cluster.in_sync(1, 2, 3)
    await cluster.end()


def test_a_new_replica_of_a_log_that_begins_within_a_batch() -> None:
    live(Cluster(1, 3), main)
