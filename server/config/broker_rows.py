"""Broker settings that have an effect in Kavka.

`field` is their name in BrokerSettings. Defaults of topic configs are in `topic_defaults`, Kafka's
other settings in `unsupported_rows`.
"""

from __future__ import annotations

from typing import Final

from kavka.server.config.address_limits import NO_LIMIT
from kavka.server.config.classic_group_rows import CLASSIC_GROUP_ROWS
from kavka.server.config.cleaner_rows import CLEANER_ROWS
from kavka.server.config.cluster_rows import CLUSTER_ROWS
from kavka.server.config.consumer_group_rows import CONSUMER_GROUP_ROWS
from kavka.server.config.move_rows import MOVE_ROWS
from kavka.server.config.offset_rows import OFFSET_ROWS
from kavka.server.config.offset_topic_rows import OFFSET_TOPIC_ROWS
from kavka.server.config.rows import Importance, Mode, broker_setting
from kavka.server.config.topic_defaults import TOPIC_DEFAULT_ROWS
from kavka.server.config.transaction_rows import TRANSACTION_ROWS
from kavka.server.config.validators import AtLeast, Items
from kavka.server.config.value_types import LONG_MAX, Type

HIGH: Final = Importance.HIGH
MEDIUM: Final = Importance.MEDIUM
LOW: Final = Importance.LOW


_NETWORK_ROWS: Final = (
    broker_setting(
        "listeners",
        Type.LIST,
        ("PLAINTEXT://:9092",),
        Items(may_be_empty=False),
        HIGH,
        "Where the broker listens, as NAME://host:port. Without host: on all interfaces; with "
        "port 0: on a free one. Those named in controller.listener.names are left out.",
    ),
    broker_setting(
        "advertised.listeners",
        Type.LIST,
        None,
        Items(may_be_empty=False),
        HIGH,
        "Addresses that are advertised to clients; those of listeners when not set. Without "
        "host: this machine's name; with port 0: the port that the listener got.",
    ),
    broker_setting(
        "listener.security.protocol.map",
        Type.STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        None,
        LOW,
        "The protocol of each listener, as NAME:PROTOCOL. A listener can be PLAINTEXT only so far.",
        field="",
    ),
    broker_setting(
        "inter.broker.listener.name",
        Type.STRING,
        None,
        None,
        MEDIUM,
        "The listener that brokers use among themselves: one of advertised.listeners, PLAINTEXT "
        "when not set.",
    ),
    broker_setting(
        "controller.listener.names",
        Type.LIST,
        None,
        Items(may_be_empty=False),
        HIGH,
        "Listeners for the controllers of a KRaft quorum. Kavka has none and leaves them closed.",
        field="",
    ),
    broker_setting(
        "socket.listen.backlog.size",
        Type.INT,
        50,
        AtLeast(1),
        MEDIUM,
        "How many connections may wait to be accepted. The system may have a lower limit.",
    ),
    broker_setting(
        "socket.receive.buffer.bytes",
        Type.INT,
        102_400,
        None,
        HIGH,
        "The receive buffer of a connection's socket in bytes. -1: the system's choice. Left "
        "alone, Kavka lets the system size it by need, which costs less CPU than this size.",
    ),
    broker_setting(
        "socket.request.max.bytes",
        Type.INT,
        104_857_600,
        AtLeast(1),
        HIGH,
        "The biggest request in bytes; a connection that announces a bigger one is closed.",
    ),
    broker_setting(
        "socket.send.buffer.bytes",
        Type.INT,
        102_400,
        None,
        HIGH,
        "The send buffer of a connection's socket in bytes. -1: the system's choice. Left "
        "alone, Kavka lets the system size it by need, which costs less CPU than this size.",
    ),
    broker_setting(
        "connections.max.idle.ms",
        Type.LONG,
        600_000,
        None,
        MEDIUM,
        "A connection without traffic for this long is closed, unless the broker owes it an "
        "answer. Below 0: never.",
    ),
    broker_setting(
        "max.connections",
        Type.INT,
        NO_LIMIT,
        AtLeast(0),
        MEDIUM,
        "Connections to the whole broker. At the limit new ones wait to be accepted, except on "
        "inter.broker.listener.name if there are other listeners: for one there, the least "
        "recently used connection of the others is closed. listener.name.NAME.max.connections is "
        "the limit of one listener, the broker's if not set.",
        dynamic=Mode.CLUSTER_WIDE,
    ),
    broker_setting(
        "max.connections.per.ip",
        Type.INT,
        NO_LIMIT,
        AtLeast(0),
        MEDIUM,
        "Connections from one address; further ones are closed at once. Can be 0 only with "
        "max.connections.per.ip.overrides.",
        dynamic=Mode.CLUSTER_WIDE,
    ),
    broker_setting(
        "max.connections.per.ip.overrides",
        Type.STRING,
        "",
        None,
        MEDIUM,
        "What max.connections.per.ip is for single addresses or host names, as HOST:COUNT,...",
        dynamic=Mode.CLUSTER_WIDE,
    ),
    broker_setting(
        "max.connection.creation.rate",
        Type.INT,
        NO_LIMIT,
        AtLeast(0),
        MEDIUM,
        "New connections a second in the whole broker, as the mean of about ten seconds; beyond "
        "it they wait to be accepted. inter.broker.listener.name is exempt if there are other "
        "listeners. listener.name.NAME.max.connection.creation.rate is the limit of one "
        "listener, the broker's if not set.",
        dynamic=Mode.CLUSTER_WIDE,
    ),
    broker_setting(
        "kavka.advertised.dialled.listeners",
        Type.LIST,
        (),
        Items(),
        MEDIUM,
        "Listeners that advertise to each client the address it connected to, for clients that "
        "need different addresses. The port is that of advertised.listeners if that is set and has "
        "one, for example a forwarded port.",
        field="dialled_listeners",
    ),
    broker_setting(
        "telemetry.max.bytes",
        Type.INT,
        1_048_576,
        AtLeast(1),
        LOW,
        "The largest size of a client's pushed metrics, compressed (KIP-714).",
    ),
    broker_setting(
        "kavka.http.listener",
        Type.STRING,
        None,
        None,
        MEDIUM,
        "Where /metrics, /healthz and /readyz are served over HTTP, as host:port; without host on "
        "all interfaces, with port 0 on a free one. Not served when not set. Anyone who can "
        "connect can read them.",
    ),
    broker_setting(
        "queued.max.requests",
        Type.INT,
        500,
        AtLeast(1),
        HIGH,
        "How many requests may wait for a thread to handle them.",
        note="requests are handled as they are read, none waits for a thread",
    ),
    broker_setting(
        "queued.max.request.bytes",
        Type.LONG,
        -1,
        None,
        MEDIUM,
        "Bytes of requests that are being received and are bigger than 256 KiB. Once so many "
        "are held, further such requests are read on when others are complete. Below 1: no limit.",
    ),
)

_BROKER_ROWS: Final = (
    broker_setting(
        "broker.id",
        Type.INT,
        -1,
        None,
        HIGH,
        "The older name of node.id; if both are set they must be equal.",
        field="",
    ),
    broker_setting(
        "node.id",
        Type.INT,
        None,
        AtLeast(0),
        HIGH,
        "This broker's number, different for each broker of a cluster. If it is not set, a broker "
        "of a cluster generates one (broker.id.generation.enable), and a standalone one has 1.",
        field="broker_id",
    ),
    broker_setting(
        "broker.rack",
        Type.STRING,
        None,
        None,
        MEDIUM,
        "The rack of this broker, advertised to clients.",
    ),
    broker_setting(
        "log.dir",
        Type.LIST,
        ("/tmp/kafka-logs",),
        Items(may_be_empty=False),
        HIGH,
        "Directories for data, where log.dirs is not set.",
        field="",
    ),
    broker_setting(
        "log.dirs",
        Type.LIST,
        None,
        Items(may_be_empty=False),
        HIGH,
        "Directories for data; partitions are spread over them.",
    ),
    broker_setting(
        "kavka.lost.log.dirs",
        Type.LIST,
        (),
        Items(),
        LOW,
        "Ids (directory.id) of log directories that are permanently lost. Partitions of a missing "
        "directory that is not listed stay offline, and the broker logs its id. Those of a listed "
        "one start empty, or are copied from other replicas.",
        field="lost_log_dirs",
    ),
    broker_setting(
        "num.recovery.threads.per.data.dir",
        Type.INT,
        2,
        AtLeast(1),
        HIGH,
        "How many logs of one directory are recovered, or flushed at shutdown, at a time; in all "
        "directories together 4 at most. A change is used at the next shutdown.",
        dynamic=Mode.CLUSTER_WIDE,
    ),
    broker_setting(
        "auto.create.topics.enable",
        Type.BOOLEAN,
        True,
        None,
        HIGH,
        "Whether a missing topic is created, with the defaults, when a client requests it.",
    ),
    broker_setting(
        "default.replication.factor",
        Type.INT,
        1,
        None,
        MEDIUM,
        "Replication factor of a topic that is created without one.",
    ),
    broker_setting(
        "delete.topic.enable",
        Type.BOOLEAN,
        True,
        None,
        HIGH,
        "Whether clients may delete topics.",
    ),
    broker_setting(
        "num.partitions",
        Type.INT,
        1,
        AtLeast(1),
        MEDIUM,
        "Partitions of a topic that does not say how many.",
    ),
    broker_setting(
        "fetch.max.bytes",
        Type.INT,
        57_671_680,
        AtLeast(1024),
        MEDIUM,
        "The most bytes of records in one answer to a fetch, whatever the client asks for. The "
        "first batch is given whole even if it is bigger. Above 8 MiB it has no effect: Kavka "
        "gives no more at once, and less while many answers wait to be read.",
    ),
    broker_setting(
        "max.incremental.fetch.session.cache.slots",
        Type.INT,
        1000,
        AtLeast(0),
        MEDIUM,
        "How many fetch sessions are kept (KIP-227). Clients beyond it fetch without one.",
    ),
    broker_setting(
        "max.request.partition.size.limit",
        Type.INT,
        2000,
        AtLeast(1),
        MEDIUM,
        "Partitions in one response to DescribeTopicPartitions (KIP-966).",
    ),
    broker_setting(
        "request.timeout.ms",
        Type.INT,
        30_000,
        None,
        HIGH,
        "How long a write of the transaction coordinator may take to reach all in-sync replicas; "
        "after that clients get a retriable error.",
    ),
)

_STORAGE_ROWS: Final = (
    broker_setting(
        "log.flush.offset.checkpoint.interval.ms",
        Type.INT,
        60_000,
        AtLeast(0),
        HIGH,
        "Checkpoint interval of recovery points, up to which logs are flushed. After a crash, what "
        "comes later is checked.",
    ),
    broker_setting(
        "log.flush.scheduler.interval.ms",
        Type.LONG,
        LONG_MAX,
        None,
        HIGH,
        "Interval of checking which logs are to be flushed by flush.ms.",
    ),
    broker_setting(
        "log.flush.start.offset.checkpoint.interval.ms",
        Type.INT,
        60_000,
        AtLeast(0),
        HIGH,
        "Checkpoint interval of log start offsets.",
    ),
    broker_setting(
        "log.initial.task.delay.ms",
        Type.LONG,
        30_000,
        AtLeast(0),
        LOW,
        "Time from the start to the first look for records that are due to go.",
        internal=True,
    ),
    broker_setting(
        "log.retention.check.interval.ms",
        Type.LONG,
        300_000,
        AtLeast(1),
        MEDIUM,
        "Interval of checking which segments are to be deleted by retention.ms and "
        "retention.bytes.",
    ),
    broker_setting(
        "replica.high.watermark.checkpoint.interval.ms",
        Type.LONG,
        5_000,
        None,
        HIGH,
        "Checkpoint interval of high watermarks.",
    ),
    broker_setting(
        "producer.id.expiration.check.interval.ms",
        Type.INT,
        600_000,
        AtLeast(1),
        LOW,
        "Interval of removing producers that are expired by producer.id.expiration.ms.",
        internal=True,
    ),
    broker_setting(
        "producer.id.expiration.ms",
        Type.INT,
        86_400_000,
        AtLeast(1),
        LOW,
        "A partition forgets the sequence numbers of a producer that has been silent this long.",
        dynamic=Mode.CLUSTER_WIDE,
    ),
)

BROKER_ROWS: Final = (
    *_NETWORK_ROWS,
    *_BROKER_ROWS,
    *_STORAGE_ROWS,
    *CLUSTER_ROWS,
    *CLEANER_ROWS,
    *MOVE_ROWS,
    *OFFSET_TOPIC_ROWS,
    *CLASSIC_GROUP_ROWS,
    *CONSUMER_GROUP_ROWS,
    *OFFSET_ROWS,
    *TRANSACTION_ROWS,
    *TOPIC_DEFAULT_ROWS,
)
