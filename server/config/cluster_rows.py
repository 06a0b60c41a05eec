"""Settings of a broker that has others beside it: its sessions with ZooKeeper, and replication."""

from __future__ import annotations

from typing import Final

from kavka.server.config.rows import Importance, Mode, broker_setting
from kavka.server.config.validators import AtLeast
from kavka.server.config.value_types import LONG_MAX, Type
from kavka.server.config.zookeeper_security_rows import ZOOKEEPER_SECURITY_ROWS

CONNECT: Final = "zookeeper.connect"
SELECTOR: Final = "replica.selector.class"
LEADER_SELECTOR: Final = "org.apache.kafka.common.replica.LeaderSelector"
RACK_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
ID_GENERATION: Final = "broker.id.generation.enable"
RESERVED_ID_MAX: Final = "reserved.broker.max.id"
ID_TO_GENERATE: Final = -1
"""In place of a broker's id, until it has been generated."""

FETCH_WAIT: Final = "replica.fetch.wait.max.ms"
SOCKET_TIMEOUT: Final = "replica.socket.timeout.ms"
LAG_TIME: Final = "replica.lag.time.max.ms"
POSITIVE: Final = (
    "zookeeper.connection.timeout.ms",
    "zookeeper.session.timeout.ms",
    "controller.socket.timeout.ms",
    FETCH_WAIT,
    SOCKET_TIMEOUT,
    LAG_TIME,
)
"""Times without which nothing works, though Apache Kafka checks none of them."""


_ZOOKEEPER_ROWS: Final = (
    broker_setting(
        CONNECT,
        Type.STRING,
        None,
        None,
        Importance.HIGH,
        "ZooKeeper's servers, as in host1:2181,host2:2181, and perhaps a path below which all "
        "nodes are, as in host1:2181/kafka. There brokers share the metadata of their cluster; "
        "without it a broker is alone, and keeps its metadata itself.",
        internal=True,
    ),
    broker_setting(
        "zookeeper.connection.timeout.ms",
        Type.INT,
        None,
        None,
        Importance.HIGH,
        "How long the start waits for ZooKeeper; zookeeper.session.timeout.ms unless set.",
        internal=True,
    ),
    broker_setting(
        "zookeeper.max.in.flight.requests",
        Type.INT,
        10,
        AtLeast(1),
        Importance.HIGH,
        "Requests that are sent to ZooKeeper before it has answered the first of them.",
        internal=True,
    ),
    broker_setting(
        "zookeeper.session.timeout.ms",
        Type.INT,
        18_000,
        None,
        Importance.HIGH,
        "How long ZooKeeper hears nothing of a broker until its session expires, and with it the "
        "broker's registration.",
        internal=True,
    ),
)

_ID_ROWS: Final = (
    broker_setting(
        ID_GENERATION,
        Type.BOOLEAN,
        True,
        None,
        Importance.MEDIUM,
        "Whether a broker without broker.id gets one from ZooKeeper at its first start, which "
        "meta.properties in its log directories then has.",
        field="",
        internal=True,
    ),
    broker_setting(
        RESERVED_ID_MAX,
        Type.INT,
        1000,
        AtLeast(0),
        Importance.MEDIUM,
        "The largest id that broker.id may give while broker.id.generation.enable is true: ids "
        "above are generated.",
        internal=True,
    ),
)

_REPLICATION_ROWS: Final = (
    broker_setting(
        "controller.socket.timeout.ms",
        Type.INT,
        30_000,
        None,
        Importance.MEDIUM,
        "How long a request from the controller to a broker, or from a broker to the controller, "
        "waits for its response.",
    ),
    broker_setting(
        "replica.fetch.backoff.ms",
        Type.INT,
        1000,
        AtLeast(0),
        Importance.MEDIUM,
        "How long at most a partition is not fetched from its leader after that has failed: at "
        "first a fiftieth of a second, and twice as long after each further failure.",
    ),
    broker_setting(
        "replica.fetch.max.bytes",
        Type.INT,
        1_048_576,
        AtLeast(0),
        Importance.MEDIUM,
        "Bytes that a follower fetches of one partition at once; a larger batch is fetched whole.",
    ),
    broker_setting(
        "replica.fetch.min.bytes",
        Type.INT,
        1,
        None,
        Importance.HIGH,
        "Bytes that a leader waits for before it answers a follower.",
    ),
    broker_setting(
        "replica.fetch.response.max.bytes",
        Type.INT,
        10_485_760,
        AtLeast(0),
        Importance.MEDIUM,
        "Bytes that a follower fetches of all partitions at once.",
    ),
    broker_setting(
        FETCH_WAIT,
        Type.INT,
        500,
        None,
        Importance.HIGH,
        "How long a leader waits for replica.fetch.min.bytes before it answers a follower.",
    ),
    broker_setting(
        LAG_TIME,
        Type.LONG,
        30_000,
        None,
        Importance.HIGH,
        "A follower that has not caught up with its leader for this long leaves the ISR.",
    ),
    broker_setting(
        SOCKET_TIMEOUT,
        Type.INT,
        30_000,
        None,
        Importance.HIGH,
        "How long a follower waits for the answer to a fetch.",
    ),
)

_READING_ROWS: Final = (
    broker_setting(
        SELECTOR,
        Type.STRING,
        None,
        None,
        Importance.MEDIUM,
        "From which replica consumers read (KIP-392). With "
        f"{RACK_SELECTOR} a consumer that says its rack (client.rack) reads from a replica in sync "
        "on a broker of that rack (broker.rack), if there is one; with "
        f"{LEADER_SELECTOR}, and unless it is set, from the leader.",
    ),
)

_THROTTLE_ROWS: Final = (
    broker_setting(
        "follower.replication.throttled.rate",
        Type.LONG,
        LONG_MAX,
        AtLeast(0),
        Importance.MEDIUM,
        "Bytes a second that this broker fetches of the replicas that "
        "follower.replication.throttled.replicas names in their topics' configs. Best above 1 MB: "
        "whole responses are counted.",
        dynamic=Mode.CLUSTER_WIDE,
        internal=True,
    ),
    broker_setting(
        "leader.replication.throttled.rate",
        Type.LONG,
        LONG_MAX,
        AtLeast(0),
        Importance.MEDIUM,
        "Bytes a second that this broker sends to followers of the partitions that "
        "leader.replication.throttled.replicas names in their topics' configs.",
        dynamic=Mode.CLUSTER_WIDE,
        internal=True,
    ),
    broker_setting(
        "replication.quota.window.num",
        Type.INT,
        11,
        AtLeast(1),
        Importance.LOW,
        "Windows over which the rate of throttled replication is measured.",
    ),
    broker_setting(
        "replication.quota.window.size.seconds",
        Type.INT,
        1,
        AtLeast(1),
        Importance.LOW,
        "How long each of these windows is.",
    ),
)

_SHUTDOWN_ROWS: Final = (
    broker_setting(
        "controlled.shutdown.enable",
        Type.BOOLEAN,
        True,
        None,
        Importance.MEDIUM,
        "Whether a broker that stops first has others lead what it leads.",
    ),
    broker_setting(
        "controlled.shutdown.max.retries",
        Type.INT,
        3,
        None,
        Importance.MEDIUM,
        "How often a broker that stops asks the controller again, if that fails.",
        internal=True,
    ),
    broker_setting(
        "controlled.shutdown.retry.backoff.ms",
        Type.LONG,
        5000,
        None,
        Importance.MEDIUM,
        "Time before it is asked again.",
        internal=True,
    ),
)

_BALANCE_ROWS: Final = (
    broker_setting(
        "auto.leader.rebalance.enable",
        Type.BOOLEAN,
        True,
        None,
        Importance.HIGH,
        "Whether the controller gives leaderships back to the preferred replicas, the first ones "
        "of their partitions.",
    ),
    broker_setting(
        "leader.imbalance.check.interval.seconds",
        Type.LONG,
        300,
        AtLeast(1),
        Importance.HIGH,
        "How often it looks whether it should.",
    ),
    broker_setting(
        "leader.imbalance.per.broker.percentage",
        Type.INT,
        10,
        None,
        Importance.HIGH,
        "It does so for a broker that does not lead more than this share of the partitions whose "
        "preferred replica it is.",
        internal=True,
    ),
)

_OWN_ROWS: Final = (
    broker_setting(
        "kavka.fast.failover.enable",
        Type.BOOLEAN,
        True,
        None,
        Importance.MEDIUM,
        "Whether a broker whose address refuses connections counts as dead at once: others lead "
        "what it led, and another controller is elected; and whether a broker that starts takes "
        "over the registration of its earlier process. Otherwise, as in Apache Kafka, that has to "
        "wait until the session has expired (zookeeper.session.timeout.ms).",
    ),
)

CLUSTER_ROWS: Final = (
    *_OWN_ROWS,
    *_ZOOKEEPER_ROWS,
    *ZOOKEEPER_SECURITY_ROWS,
    *_ID_ROWS,
    *_REPLICATION_ROWS,
    *_READING_ROWS,
    *_THROTTLE_ROWS,
    *_BALANCE_ROWS,
    *_SHUTDOWN_ROWS,
)
