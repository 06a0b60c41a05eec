"""Topics, replicas, the controller, who waits and who is connected, with a known traffic."""

from __future__ import annotations

from support.memory_broker import MemoryBroker, fetching, scenario
from support.metrics import ON, look, records

TOPIC = "kafka_server_brokertopicmetrics_"
REPLICAS = "kafka_server_replicamanager_"
CONTROLLER = "kafka_controller_kafkacontroller_"
PARTITION = "kafka_cluster_partition_"
SOCKETS = "kafka_server_socket_server_metrics_connection_"


@scenario(ON, topics={"t": 2, "u": 1})
async def test_topics(broker: MemoryBroker) -> None:
    sent = {("t", 0): records(3), ("t", 1): records(4), ("u", 0): records(5)}
    for (topic, partition), batch in sent.items():
        await broker.produce(batch[:], topic, partition)
    broken = records(1)
    broken[-1] ^= 0xFF
    await broker.produce(broken)
    for (topic, partition), batch in sent.items():
        assert bytes((await broker.fetch(0, topic, partition)).records)[17:] == batch[17:]
    found = await look(broker)
    size = {
        name: sum(len(batch) for (topic, _), batch in sent.items() if topic == name)
        for name in "tu"
    }
    both = sum(size.values())
    for name, total, in_t, in_u in (
        ("messagesin", 12, 7, 5),
        ("bytesin", both, size["t"], size["u"]),
        ("bytesout", both, size["t"], size["u"]),
        ("totalproducerequests", 4, 3, 1),
        ("failedproducerequests", 0, 0, 0),
        ("totalfetchrequests", 3, 2, 1),
        ("bytesrejected", 0, 0, 0),
    ):
        assert found.all(f"{TOPIC}{name}_total") == {(): total, ("t",): in_t, ("u",): in_u}, name
    assert found.all(f"{TOPIC}invalidmessagecrcrecords_total") == {(): 1}
    assert found.all(f"{TOPIC}failedfetchrequests_total") == {(): 0}


@scenario(ON, topics={"t": 1})
async def test_batches_that_are_kept_otherwise_or_lack_keys(broker: MemoryBroker) -> None:
    await broker.create("packed", configs={"compression.type": "gzip"})
    await broker.create("keyed", configs={"cleanup.policy": "compact"})
    for topic, count in (("t", 2), ("packed", 3), ("keyed", 5), ("packed", 4)):
        await broker.produce(records(count), topic)
    found = await look(broker)
    assert found.all(f"{TOPIC}producemessageconversions_total") == {
        (): 7,
        ("t",): 0,
        ("packed",): 7,
        ("keyed",): 0,
    }
    assert found.all(f"{TOPIC}nokeycompactedtopicrecords_total") == {(): 5}


@scenario(ON, topics={"t": 3})
async def test_replicas_controller_and_partitions(broker: MemoryBroker) -> None:
    broker.share((1,), "t", 1)
    found = await look(broker)
    values = {
        f"{REPLICAS}leadercount": 3,
        f"{REPLICAS}partitioncount": 3,
        f"{REPLICAS}offlinereplicacount": 0,
        f"{REPLICAS}underreplicatedpartitions": 1,
        f"{REPLICAS}underminisrpartitioncount": 0,
        f"{REPLICAS}atminisrpartitioncount": 3,
        f"{REPLICAS}produceridcount": 0,
        f"{CONTROLLER}activecontrollercount": 1,
        f"{CONTROLLER}activebrokercount": 1,
        f"{CONTROLLER}globaltopiccount": 1,
        f"{CONTROLLER}globalpartitioncount": 3,
        f"{CONTROLLER}offlinepartitionscount": 0,
        f"{CONTROLLER}preferredreplicaimbalancecount": 0,
    }
    assert {name: found[name] for name in values} == values
    of_partitions = {
        "underreplicated": [0, 1, 0],
        "underminisr": [0, 0, 0],
        "atminisr": [1, 1, 1],
        "insyncreplicascount": [1, 1, 1],
        "replicascount": [1, 2, 1],
        "laststableoffsetlag": [0, 0, 0],
    }
    for name, expected in of_partitions.items():
        numbers = found.all(f"{PARTITION}{name}")
        assert numbers == {
            (str(partition), "t"): value for partition, value in enumerate(expected)
        }, name


@scenario(ON, topics={"t": 1})
async def test_a_broker_that_is_not_the_controller_reports_zeros(broker: MemoryBroker) -> None:
    broker.parts.controller.close()
    found = await look(broker)
    for name in ("activecontrollercount", "globaltopiccount", "globalpartitioncount"):
        assert found[f"{CONTROLLER}{name}"] == 0


@scenario(ON, topics={"t": 2})
async def test_waiting_requests(broker: MemoryBroker) -> None:
    request = fetching({("t", 0): 0, ("t", 1): 0}, max_wait_ms=1000)
    waiting = broker.client.send("Fetch", 12, **request)
    await broker.advance(1)
    purgatory = "kafka_server_delayedoperationpurgatory_"
    found = await look(broker)
    assert found.all(f"{purgatory}numdelayedoperations") == {("Produce",): 0, ("Fetch",): 1}
    assert found.all(f"{purgatory}purgatorysize") == {("Produce",): 0, ("Fetch",): 2}
    await broker.advance(1000)
    assert waiting.done()
    found = await look(broker)
    assert found.of(f"{purgatory}numdelayedoperations", delayedOperation="Fetch") == 0
    expired = "kafka_server_delayedfetchmetrics_expires_total"
    assert found.of(expired, fetcherType="consumer") == 1
    assert found["kafka_server_delayedproducemetrics_expires_total"] == 0


@scenario(ON, "max.incremental.fetch.session.cache.slots=1", topics={"t": 2})
async def test_sessions(broker: MemoryBroker) -> None:
    request = fetching({("t", 0): 0, ("t", 1): 0}, session_epoch=0)
    await broker.ask("Fetch", 12, **request)
    cache = "kafka_server_fetchsessioncache_"
    found = await look(broker)
    assert found[f"{cache}numincrementalfetchsessions"] == 1
    assert found[f"{cache}numincrementalfetchpartitionscached"] == 2
    assert found[f"{cache}incrementalfetchsessionevictions_total"] == 0
    await broker.advance(200_000)
    await broker.ask("Fetch", 12, **request)
    found = await look(broker)
    assert found[f"{cache}incrementalfetchsessionevictions_total"] == 1


@scenario(ON, "max.connections.per.ip=3", "connections.max.idle.ms=60000")
async def test_connections(broker: MemoryBroker) -> None:
    clients = [broker.connect() for _ in range(2)]
    assert broker.connect().is_closed
    clients[0].close()
    await clients[0].closed()
    clients[1].send_frame(b"garbage")
    await clients[1].closed()
    labels = {"listener": "PLAINTEXT", "networkProcessor": "0"}
    found = await look(broker)
    assert found.of(f"{SOCKETS}count", **labels) == 1
    assert found.of(f"{SOCKETS}creation_total", **labels) == 3
    assert found.of(f"{SOCKETS}close_total", **labels) == 2
    assert found["kavka_connections_refused_total"] == 1
    assert found["kavka_connections_bad_requests_total"] == 1
    assert found["kavka_connections_displaced_total"] == 0
    assert found["kavka_connections_expired_total"] == 0
    await broker.advance(70_000)
    found = await look(broker)
    assert found["kavka_connections_expired_total"] == 1
    assert found.of(f"{SOCKETS}count", **labels) == 0
    broker.client = broker.connect()
