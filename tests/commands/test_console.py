"""`kavka console-producer` and `kavka console-consumer` write and print what Apache Kafka's do.

Apache Kafka's tools try for ever, or a minute, where no broker answers; Kavka's end at once.
kafka-python can't write the null value of a header.
"""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from commands.sessions import differences
from kavka.tools.console import console_consumer, console_producer
from support import java
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.java_tools import Tools
from support.oracle import ApacheKafka
from support.process import BrokerProcess, running

READ_BY = "--reader-property"
EARLIEST = "--partition 0 --offset earliest"
READ = f"{EARLIEST} --timeout-ms 30000 --max-messages"
"""Long, as a busy machine may take seconds for the first record: what is asked for is there."""

WAIT = f"{EARLIEST} --timeout-ms 10000 --max-messages"
"""More than there is: both tools wait until nothing has come for as long as that."""

ALL = " ".join(
    f"--formatter-property print.{part}=true"
    for part in ("key", "offset", "partition", "headers", "epoch", "delivery")
)
TYPES = "org.apache.kafka.common.serialization"
TIMES = re.compile(r"(?<=CreateTime:)\d+")

PRODUCED = rf"""
    --topic lines <<< one\ntwo\r\nthree\rfour
    --topic lines --sync <<< five\n
    --topic lines <<<
    --topic lines <<< \n\n
    --topic lines --compression-codec gzip <<< gzip\n
    --topic lines --compression-codec lz4 --batch-size 100 --timeout 5 <<< lz4\nlz4\nlz4\n
    --topic lines --compression-codec <<< gzip again\n
    --topic lines --compression-codec zstd --request-required-acks 1 <<< zstd\n
    --topic lines --request-required-acks 0 --retry-backoff-ms 50 <<< unheard\n
    --topic lines --request-required-acks all --message-send-max-retries 1 <<< all\n
    --topic lines --max-block-ms 90000 --max-memory-bytes 100000 --metadata-expiry-ms 5000 <<< m\n
    --topic lines --max-partition-memory-bytes 1000 --socket-buffer-size 50000 <<< b\n
    --topic lines --request-timeout-ms 40000 --command-property client.id=me <<< r\n
    --topic lines --producer-property linger.ms=1 <<< p\n
    --topic lines --line-reader org.apache.kafka.tools.LineMessageReader <<< class\n
    --topic lines <<< gr\xc3\xbc\xc3\x9fe \xff\n
    --topic lines <<< \xed\xa0\x80 \xed\xa0\xbd\xed\xb8\x80 \xf0\x9f\x98 \xf5\n
    --topic keyed {READ_BY} parse.key=true <<< k\tv\nk2\tv\tw\n\tv\n
    --topic keyed --property parse.key=TRUE --property key.separator=: <<< k:v:w\n
    --topic keyed {READ_BY} parse.key=true {READ_BY} key.separator= <<< ab\n
    --topic keyed {READ_BY} parse.key=true {READ_BY} ignore.error=true <<< v\n
    --topic keyed {READ_BY} parse.key=true <<< k\tv\nnone\n
    --topic keyed {READ_BY} parse.headers=true <<< a:b,c:d\tv\na:\tv\na:b,,\tv\n
    --topic keyed {READ_BY} parse.headers=true <<< a\tv\n
    --topic keyed {READ_BY} parse.headers=true <<< none\n
    --topic keyed {READ_BY} parse.headers=true {READ_BY} parse.key=true <<< h:i\tk\tv
    --topic keyed {READ_BY} null.marker=NULL <<< NULL\nnull\n
    --topic keyed {READ_BY} null.marker=N {READ_BY} parse.key=true <<< N\tv\nk\tN\nN\tN
    --topic keyed {READ_BY} null.marker=N {READ_BY} parse.headers=true <<< N\tv\n
    --topic keyed {READ_BY} null.marker=N {READ_BY} parse.headers=true <<< N:x\tv\n
    --topic keyed {READ_BY} parse.headers=true {READ_BY} headers.separator=[;|] \
{READ_BY} headers.key.separator==> {READ_BY} headers.delimiter=/ <<< a=>b;c=>d|e=>f/v
    --topic x {READ_BY} headers.delimiter=, <<< v
    --topic x {READ_BY} headers.delimiter=: <<< v
    --topic x {READ_BY} headers.key.separator=, <<< v
    --topic x {READ_BY} null.marker=, <<< v
    --topic x {READ_BY} null.marker=: <<< v
    --topic x {READ_BY} null.marker=%s {READ_BY} key.separator=%s <<< v
    --topic x {READ_BY} headers.separator=( <<< v
    --topic lines --reader-config CONFIG/reader <<< k:v
    --topic lines --command-config CONFIG/client <<< c
    --topic lines --producer.config CONFIG/client --property a=b <<< c
    --topic lines --producer.config CONFIG/client --command-config CONFIG/client <<< c
    --topic lines --producer-property a=b --command-property c=d <<< c
    --topic lines --property a=b --reader-property c=d <<< c
    --topic lines --command-config CONFIG/none <<< c
    --topic lines --reader-config CONFIG/none <<< c
    --topic lines --compression-codec rar <<< c
    --topic lines --request-required-acks 7 <<< c
    --topic lines --command-property batch.size=many <<< c
    --topic lines --batch-size many <<< c
    --topic lines --line-reader Nobody <<< c
    --topic small --sync <<< 0123456789012345678901234567890123456789012345678901234567890123456789
    --topic small <<< 0123456789012345678901234567890123456789012345678901234567890123456789
    --topic
    --frobnicate
    --topic a --topic b <<< c

    !--topic lines <<< c
    !--broker-list BROKER --topic lines <<< c
    !--bootstrap-server nowhere --topic lines <<< c
"""

CONSUMED = rf"""
    --topic lines {WAIT} 26
    --topic keyed {WAIT} 19 {ALL}
    --topic keyed {READ} 18 {ALL} --formatter-property print.value=false
    --topic keyed {READ} 3 --formatter-property print.timestamp=true
    --topic keyed {READ} 3 --formatter-property print.timestamp=true --property print.key=true
    --topic keyed {READ} 3 --property print.key=true --property print.value=FALSE
    --topic keyed {READ} 18 --formatter-property print.key=true --formatter-property key.separator=-
    --topic keyed {READ} 9 --formatter-property line.separator=; --formatter-property null.literal=0
    --topic keyed {READ} 18 --formatter-property print.headers=true \
--formatter-property headers.separator=+ --formatter-property null.literal=NIL
    --topic keyed {READ} 3 --formatter-config CONFIG/formatter
    --topic keyed {READ} 3 --formatter-config CONFIG/none
    --topic lines {READ} 5 --value-deserializer {TYPES}.StringDeserializer
    --topic lines {READ} 5 --value-deserializer {TYPES}.BytesDeserializer
    --topic lines {READ} 24 --value-deserializer {TYPES}.BytesDeserializer
    --topic lines {READ} 5 --value-deserializer {TYPES}.ByteBufferDeserializer
    --topic lines {READ} 5 --value-deserializer {TYPES}.IntegerDeserializer
    --topic lines {READ} 5 --value-deserializer {TYPES}.FloatDeserializer --skip-message-on-error
    --topic lines {READ} 5 --value-deserializer {TYPES}.NoSuchDeserializer
    --topic keyed {READ} 4 --key-deserializer {TYPES}.StringDeserializer --property print.key=true
    --topic lines {READ} 3 --formatter org.apache.kafka.tools.consumer.NoOpMessageFormatter
    --topic lines {READ} 3 --formatter org.apache.kafka.tools.consumer.LoggingMessageFormatter
    --topic lines {READ} 3 --formatter Nobody
    --topic lines {READ} 0
    --topic lines --partition 0 --offset 2 --max-messages 1 --timeout-ms 20000
    --topic lines --partition 0 --offset 2 --timeout-ms 10000
    --topic lines --partition 0 --from-beginning --max-messages 1 --timeout-ms 20000
    --topic lines --partition 0 --timeout-ms 700
    --topic lines --partition 0 --offset latest --timeout-ms 700
    --topic lines --partition 0 --offset LATEST --timeout-ms 700
    --topic lines --partition 0 --offset 9999 --timeout-ms 700
    --topic lines --partition 77 --offset earliest --timeout-ms 700
    --topic lines --from-beginning --max-messages 2 --timeout-ms 20000
    --topic lines --from-beginning --max-messages 2 --group some --timeout-ms 20000
    --topic lines --max-messages 2 --group some --timeout-ms 20000
    --topic lines --timeout-ms 10000 --group some --command-property auto.offset.reset=earliest
    --topic lines --timeout-ms 2000
    --include lin.s|nothing --from-beginning --max-messages 2 --timeout-ms 20000
    --include line --from-beginning --timeout-ms 1500
    --topic lines {READ} 2 --isolation-level read_committed
    --topic lines {READ} 2 --isolation-level read_some
    --topic lines {READ} 2 --enable-systest-events
    --topic lines {READ} 2 --command-property max.poll.records=1
    --topic lines {READ} 2 --consumer-property max.poll.records=1
    --topic lines {READ} 2 --consumer.config CONFIG/client
    --topic lines {READ} 2 --command-config CONFIG/client
    --topic lines {READ} 2 --command-config CONFIG/none
    --topic lines {READ} 2 --command-config CONFIG/client --consumer.config CONFIG/client
    --topic lines {READ} 2 --consumer-property a=b --command-property c=d
    --topic lines {READ} 2 --property a=b --formatter-property c=d
    --topic lines --partition 0 --offset two
    --topic lines --partition 0 --offset -5
    --topic lines --partition 0 --offset earliest --from-beginning
    --topic lines --offset earliest
    --topic lines --partition 0 --group some
    --topic lines --partition one
    --include lines --partition 0
    --topic lines --include lines
    --topic lines --group a --command-property group.id=b
    --topic lines --from-beginning --command-property auto.offset.reset=latest
    --topic lines --max-messages few --timeout-ms 20000
    --topic
    --frobnicate
    --max-messages 1 --timeout-ms 20000
    !--topic lines
    !--zookeeper BROKER --topic lines
"""

CONFIGS = {
    "reader": "parse.key=true\nkey.separator=:\n",
    "client": "client.id=somebody\n",
    "formatter": "print.key=true\nkey.separator=:\n",
}


@pytest.mark.parametrize("kind", [Kavka, ApacheKafka], ids=lambda kind: kind.kind)
def test_both_tools_say_the_same(kind: type[BrokerProcess], tmp_path: Path) -> None:
    java.program("java")
    for name, text in CONFIGS.items():
        (tmp_path / name).write_text(text)
    settings = {"group.initial.rebalance.delay.ms": "0"}
    brokers = [kind(tmp_path / f"broker-{number}", settings) for number in (1, 2)]
    with running(brokers), Tools(tmp_path / "tools.log") as tools:
        for broker in brokers:
            create_topic(broker.bootstrap, "small", 1, {"max.message.bytes": "100"})
        found = [
            difference
            for tool, java_class, lines in (
                (console_producer.TOOL, java.CONSOLE_PRODUCER, PRODUCED),
                (console_consumer.TOOL, java.CONSOLE_CONSUMER, CONSUMED),
            )
            for difference in differences(
                tool,
                java_class,
                tools,
                brokers,
                lines.replace("\\\n", " ").replace("CONFIG", str(tmp_path)),
                lambda text: TIMES.sub("TIME", text),
            )
        ]
        assert not found, "\n".join(found)


COORDINATED = """
    --topic __consumer_offsets READ 3 --formatter CONSUMER.OffsetsMessageFormatter
    --topic __consumer_offsets READ 99 --formatter CONSUMER.OffsetsMessageFormatter
    --topic __consumer_offsets READ 99 --formatter CONSUMER.GroupMetadataMessageFormatter
    --topic __transaction_state READ 99 --formatter CONSUMER.TransactionLogMessageFormatter
    --topic __consumer_offsets READ 99 --formatter CONSUMER.TransactionLogMessageFormatter
    --topic some READ 9 --formatter CONSUMER.OffsetsMessageFormatter
    --topic some READ 9 --formatter CONSUMER.TransactionLogMessageFormatter
    --topic some READ 9 --formatter CONSUMER.OffsetsMessageFormatter --skip-message-on-error
"""


@pytest.mark.parametrize("kind", [Kavka, ApacheKafka], ids=lambda kind: kind.kind)
def test_both_tools_read_what_coordinators_write(kind: type[BrokerProcess], tmp_path: Path) -> None:
    java.program("java")
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
    }
    with running([broker := kind(tmp_path / "broker", settings)]), Tools(tmp_path / "log") as tools:
        write_all(broker.bootstrap)
        lines = COORDINATED.replace("READ", WAIT).replace("CONSUMER", java.FORMATTERS)
        brokers = [broker, broker]
        consumer = console_consumer.TOOL
        found = [*differences(consumer, java.CONSOLE_CONSUMER, tools, brokers, lines)]
        assert not found, "\n".join(found)


def write_all(bootstrap: str) -> None:
    """Records, a group with offsets in the common and in a transaction's way, transactions."""
    create_topic(bootstrap, "some", 2)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "mover"})
    producer.init_transactions()
    for number in range(3):
        producer.begin_transaction()
        producer.produce("some", b"value", b"key%d" % number, partition=number % 2)
        if number == 1:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, group_id="reader")) as consumer:
        consumer.subscribe(["some"])
        consumer.topics()  # a leader that does not know the topic yet may assign nothing, for ever
        consumer.poll(timeout_ms=30_000, max_records=1)
        partitions = [TopicPartition("some", number) for number in (0, 1)]
        consumer.commit({partition: OffsetAndMetadata(1, "note", -1) for partition in partitions})
