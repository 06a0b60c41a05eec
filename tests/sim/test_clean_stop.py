"""A broker that has stopped cleanly holds nobody up, though it may have fetched until the end."""

from __future__ import annotations

from kavka.wire.errors import ErrorCode as Code
from sim.cluster import TOPIC, Cluster, live
from sim.machine import Machine
from support import logs

PARTITIONS = 300
AT_ONCE_S = 3.0


def led_by(machine: Machine) -> list[int]:
    assert machine.instance is not None and machine.instance.broker is not None
    replicas = machine.instance.broker.replicas.of_topic(TOPIC)
    return [replica.log.partition for replica in replicas if replica.partition.is_leader]


def test_producers_do_not_wait_for_a_follower_that_has_gone() -> None:
    """It leaves the ISR of one partition after the other, and fetches on in the next leader epoch
    until it has left the last: what it had then is not what it would have to get."""

    async def main(cluster: Cluster) -> None:
        await cluster.start()
        await cluster.create([1, 2, 3], partitions=PARTITIONS)
        await cluster.in_sync(1, 2, 3)
        controller = (await cluster.metadata()).controller_id
        stopped = cluster.machine(controller % 3 + 1)
        await stopped.stop()
        others = [machine for machine in cluster.machines if machine is not stopped]
        began_s = cluster.loop.now_s
        for machine in others:
            partitions = [
                {"index": index, "records": logs.batch([b"x"])} for index in led_by(machine)
            ]
            answer = await cluster.ask(
                machine,
                "Produce",
                9,
                transactional_id=None,
                acks=-1,
                timeout_ms=20_000,
                topic_data=[{"name": TOPIC, "partition_data": partitions}],
            )
            [topic] = answer.responses
            assert {response.error_code for response in topic.partition_responses} == {Code.NONE}
        assert cluster.loop.now_s - began_s < AT_ONCE_S
        for machine in others:
            await machine.stop()

    live(Cluster(1, 3), main)
