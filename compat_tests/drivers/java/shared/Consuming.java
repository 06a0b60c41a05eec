import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The requests for a consumer, as far as all versions that have one carry them out alike. */
abstract class Consuming implements Part {
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "RangeAssignor",
        "roundrobin", "RoundRobinAssignor",
        "sticky", "StickyAssignor",
        "cooperative", "CooperativeStickyAssignor");

    private static final Map<String, String> SETTINGS = Map.of(
        "group", "group.id",
        "isolation", "isolation.level",
        "instance_id", "group.instance.id",
        "session_timeout_ms", "session.timeout.ms",
        "heartbeat_ms", "heartbeat.interval.ms",
        "fetch_max_bytes", "fetch.max.bytes",
        "partition_fetch_max_bytes", "max.partition.fetch.bytes",
        "metadata_max_age_ms", "metadata.max.age.ms");

    private static final boolean HAS_TIMESTAMPS =
        Library.hasMethod(ConsumerRecord.class, "timestamp");
    private static final boolean HAS_HEADERS = Library.hasMethod(ConsumerRecord.class, "headers");

    private final String bootstrap;
    private final Inbox inbox = new Inbox();
    private KafkaConsumer<byte[], byte[]> consumer;

    Consuming(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    protected abstract ConsumerRecords<byte[], byte[]> poll(long ms);

    protected abstract Map<TopicPartition, OffsetAndMetadata> committed(List<TopicPartition> of);

    /** Close the consumer, which leaves its group, but not for long. */
    protected abstract void closeWithin(KafkaConsumer<byte[], byte[]> closed, long ms);

    protected void assign(List<TopicPartition> partitions) {
        opened().assign(partitions);
    }

    protected void subscribe(List<String> topics, ConsumerRebalanceListener listener) {
        opened().subscribe(topics, listener);
    }

    protected void subscribe(String pattern, ConsumerRebalanceListener listener) {
        opened().subscribe(Pattern.compile(pattern), listener);
    }

    protected void seekToBeginning(TopicPartition partition) {
        opened().seekToBeginning(List.of(partition));
    }

    protected void seekToEnd(TopicPartition partition) {
        opened().seekToEnd(List.of(partition));
    }

    protected void pause(List<TopicPartition> partitions) {
        opened().pause(partitions);
    }

    protected void resume(List<TopicPartition> partitions) {
        opened().resume(partitions);
    }

    /** Settings of the library for arguments of `consumer`. */
    protected Map<String, Object> settings(Arguments arguments) {
        Map<String, Object> settings = arguments.settings(SETTINGS);
        settings.putAll(Brokers.settings(bootstrap));
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", arguments.text("reset", "earliest"));
        if (arguments.has("assignor")) {
            String assignor = ASSIGNORS.get(arguments.text("assignor"));
            settings.put("partition.assignment.strategy", Library.CLIENTS + "consumer." + assignor);
        }
        return settings;
    }

    @Override
    public void register(Conversation conversation) {
        conversation.follow("consumer", this::open);
        conversation.follow("close_consumer", arguments -> closed().close());
        conversation.follow("subscribe", this::subscribe);
        conversation.follow("assign", this::assign);
        conversation.answer("poll", this::poll);
        conversation.answer("assignment", this::assignment);
        conversation.follow("seek", this::seek);
        conversation.answer("position", arguments ->
            Map.of("offset", position(Places.partition(arguments))));
        conversation.follow("pause", this::pause);
        conversation.follow("resume", this::resume);
        conversation.follow("commit", this::commit);
        conversation.answer("committed", this::committed);
        conversation.answer("offsets_for_times", this::offsetsForTimes);
        conversation.answer("ends", this::ends);
    }

    @Override
    public void end() {
        if (consumer != null) {
            closeWithin(closed(), CLOSE_WITHIN_MS);
        }
    }

    List<PartitionInfo> partitionsFor(String topic) {
        return opened().partitionsFor(topic);
    }

    protected KafkaConsumer<byte[], byte[]> opened() {
        if (consumer == null) {
            throw new IllegalStateException("no consumer");
        }
        return consumer;
    }

    protected boolean isOpen() {
        return consumer != null;
    }

    /** The consumer, to be closed by the caller; there is none any more. */
    private KafkaConsumer<byte[], byte[]> closed() {
        KafkaConsumer<byte[], byte[]> last = opened();
        consumer = null;
        return last;
    }

    private void open(Arguments arguments) {
        end();
        inbox.forgetAll();
        consumer = new KafkaConsumer<>(settings(arguments));
    }

    private void subscribe(Arguments arguments) {
        if (arguments.has("pattern")) {
            subscribe(arguments.text("pattern"), new Rebalances());
        } else {
            subscribe(arguments.texts("topics"), new Rebalances());
        }
        inbox.forgetAll();
    }

    private void assign(Arguments arguments) {
        assign(Places.partitions(arguments));
        inbox.forgetAll();
        for (Arguments one : arguments.objects("partitions")) {
            TopicPartition partition = Places.partition(one);
            if (one.isNumber("offset")) {
                opened().seek(partition, one.number("offset"));
            } else if (one.text("offset").equals("earliest")) {
                seekToBeginning(partition);
            } else {
                seekToEnd(partition);
            }
        }
    }

    private Object poll(Arguments arguments) {
        long wanted = arguments.number("records");
        long end = now() + arguments.number("timeout_ms");
        while (inbox.ready() < wanted) {
            gather(Math.max(0, end - now()));
            if (now() >= end) {
                break;
            }
        }
        return Map.of("records", inbox.take(wanted));
    }

    private Object assignment(Arguments arguments) {
        long end = now() + arguments.number("timeout_ms");
        do {
            gather(Math.max(0, end - now()));
        } while (now() < end);
        return Map.of("partitions", Places.listed(opened().assignment()));
    }

    private void gather(long ms) {
        for (ConsumerRecord<byte[], byte[]> one : poll(ms)) {
            inbox.add(
                new TopicPartition(one.topic(), one.partition()), one.offset(), content(one));
        }
    }

    /** What a response says of a record, beside its place. */
    private static Map<String, Object> content(ConsumerRecord<byte[], byte[]> one) {
        Map<String, Object> content = new LinkedHashMap<>();
        content.put("timestamp", HAS_TIMESTAMPS ? one.timestamp() : null);
        if (HAS_TIMESTAMPS && one.timestampType() != TimestampType.NO_TIMESTAMP_TYPE) {
            content.put("timestamp_type",
                one.timestampType() == TimestampType.CREATE_TIME ? "create" : "append");
        }
        content.put("key", Arguments.encoded(one.key()));
        content.put("value", Arguments.encoded(one.value()));
        List<Object> headers = new ArrayList<>();
        if (HAS_HEADERS) {
            for (Header header : one.headers()) {
                List<Object> pair = new ArrayList<>();
                pair.add(header.key());
                pair.add(Arguments.encoded(header.value()));
                headers.add(pair);
            }
        }
        content.put("headers", headers);
        return content;
    }

    private static long now() {
        return TimeUnit.NANOSECONDS.toMillis(System.nanoTime());
    }

    private void seek(Arguments arguments) {
        TopicPartition partition = Places.partition(arguments);
        opened().seek(partition, arguments.number("offset"));
        inbox.drop(partition);
    }

    private long position(TopicPartition partition) {
        OptionalLong kept = inbox.position(partition);
        return kept.isPresent() ? kept.getAsLong() : opened().position(partition);
    }

    private void pause(Arguments arguments) {
        List<TopicPartition> partitions = Places.partitions(arguments);
        pause(partitions);
        inbox.pause(partitions);
    }

    private void resume(Arguments arguments) {
        List<TopicPartition> partitions = Places.partitions(arguments);
        resume(partitions);
        inbox.resume(partitions);
    }

    private void commit(Arguments arguments) {
        if (arguments.has("offsets")) {
            opened().commitSync(Places.offsets(arguments));
        } else if (inbox.isEmpty()) {
            opened().commitSync();
        } else { // the library would commit records that the suite hasn't seen
            Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
            for (TopicPartition one : opened().assignment()) {
                positions.put(one, new OffsetAndMetadata(position(one)));
            }
            opened().commitSync(positions);
        }
    }

    private Object committed(Arguments arguments) {
        List<TopicPartition> partitions = Places.partitions(arguments);
        Map<TopicPartition, OffsetAndMetadata> found = committed(partitions);
        List<Object> offsets = new ArrayList<>();
        for (TopicPartition one : partitions) {
            OffsetAndMetadata at = found.get(one);
            Map<String, Object> told = new LinkedHashMap<>();
            told.put("offset", at == null ? null : at.offset());
            told.put("metadata", at == null ? null : at.metadata());
            offsets.add(told);
        }
        return Map.of("offsets", offsets);
    }

    private Object offsetsForTimes(Arguments arguments) {
        Map<TopicPartition, Long> times = new HashMap<>();
        for (Arguments one : arguments.objects("partitions")) {
            times.put(Places.partition(one), one.number("timestamp"));
        }
        Map<TopicPartition, OffsetAndTimestamp> found = opened().offsetsForTimes(times);
        List<Object> offsets = new ArrayList<>();
        for (TopicPartition one : Places.partitions(arguments)) {
            OffsetAndTimestamp at = found.get(one);
            Map<String, Object> told = new LinkedHashMap<>();
            told.put("offset", at == null ? null : at.offset());
            told.put("timestamp", at == null ? null : at.timestamp());
            offsets.add(told);
        }
        return Map.of("offsets", offsets);
    }

    private Object ends(Arguments arguments) {
        List<TopicPartition> partitions = Places.partitions(arguments);
        Map<TopicPartition, Long> earliest = opened().beginningOffsets(partitions);
        Map<TopicPartition, Long> latest = opened().endOffsets(partitions);
        List<Object> ends = new ArrayList<>();
        for (TopicPartition one : partitions) {
            ends.add(Map.of("earliest", earliest.get(one), "latest", latest.get(one)));
        }
        return Map.of("ends", ends);
    }

    /** Notes what a rebalance does. */
    private final class Rebalances implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            inbox.forget(partitions);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            // Nothing is kept of them yet.
        }
    }
}
