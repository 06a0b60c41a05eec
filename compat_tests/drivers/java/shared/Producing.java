import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The requests for a producer, as far as all versions carry them out in the same way. */
abstract class Producing implements Part {
    private static final Map<String, String> SETTINGS = Map.of(
        "acks", "acks",
        "codec", "compression.type",
        "idempotent", "enable.idempotence",
        "transactional_id", "transactional.id",
        "transaction_timeout_ms", "transaction.timeout.ms",
        "linger_ms", "linger.ms",
        "batch_bytes", "batch.size",
        "max_request_bytes", "max.request.size");

    // Older versions lack these; classes that they don't have are only touched where there are.
    private static final boolean HAS_TIMESTAMPS =
        Library.hasMethod(RecordMetadata.class, "timestamp");
    private static final boolean HAS_HEADERS = Library.hasMethod(ProducerRecord.class, "headers");
    private static final boolean HAS_IDEMPOTENCE =
        Library.hasField(ProducerConfig.class, "ENABLE_IDEMPOTENCE_CONFIG");
    private static final boolean HAS_TRANSACTIONS =
        Library.hasMethod(KafkaProducer.class, "initTransactions");

    private final String bootstrap;
    private final Consuming consuming;
    private KafkaProducer<byte[], byte[]> producer;

    /** @param consuming where there is a consumer; null if the version has none */
    Producing(String bootstrap, Consuming consuming) {
        this.bootstrap = bootstrap;
        this.consuming = consuming;
    }

    /** Set how long a record may take until it is given up. */
    protected abstract void limitTime(Map<String, Object> settings, Arguments arguments);

    protected abstract void sendOffsets(
        Map<TopicPartition, OffsetAndMetadata> offsets, String group);

    /** Close the producer, which may still send, but not for long. */
    protected abstract void closeWithin(KafkaProducer<byte[], byte[]> closed, long ms);

    @Override
    public List<String> features() {
        List<String> can = new ArrayList<>(List.of(
            "produce", "acks", "empty_bytes", "keyed", "auto_create", "recreated",
            "gzip", "snappy", "lz4"));
        if (HAS_TIMESTAMPS) {
            can.addAll(List.of("timestamps", "append_time"));
        }
        if (HAS_HEADERS) {
            can.add("headers");
        }
        if (HAS_IDEMPOTENCE) {
            can.add("idempotence");
        }
        if (HAS_TRANSACTIONS) {
            can.addAll(List.of("transactions", "fencing", "send_offsets"));
        }
        return can;
    }

    @Override
    public void register(Conversation conversation) {
        conversation.follow("producer", this::open);
        conversation.answer("send", this::send);
        conversation.answer("partitions", this::partitions);
        conversation.follow("close_producer", arguments -> closed().close());
        conversation.follow("begin", arguments -> opened().beginTransaction());
        conversation.follow("commit_transaction", arguments -> opened().commitTransaction());
        conversation.follow("abort_transaction", arguments -> opened().abortTransaction());
        conversation.follow("send_offsets", arguments ->
            sendOffsets(Places.offsets(arguments), arguments.text("group")));
    }

    @Override
    public void end() {
        if (producer != null) {
            closeWithin(closed(), CLOSE_WITHIN_MS);
        }
    }

    protected KafkaProducer<byte[], byte[]> opened() {
        if (producer == null) {
            throw new IllegalStateException("no producer");
        }
        return producer;
    }

    /** The producer, to be closed by the caller; there is none any more. */
    private KafkaProducer<byte[], byte[]> closed() {
        KafkaProducer<byte[], byte[]> last = opened();
        producer = null;
        return last;
    }

    private void open(Arguments arguments) {
        end();
        Map<String, Object> settings = arguments.settings(SETTINGS);
        settings.putAll(Brokers.settings(bootstrap));
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        if (arguments.has("timeout_ms")) {
            limitTime(settings, arguments);
        }
        producer = new KafkaProducer<>(settings);
        if (arguments.has("transactional_id")) {
            producer.initTransactions();
        }
    }

    private Object send(Arguments arguments) throws InterruptedException {
        String topic = arguments.text("topic");
        KafkaProducer<byte[], byte[]> by = opened();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (Arguments one : arguments.objects("records")) {
            sent.add(sent(by, record(topic, one)));
        }
        List<Object> placed = new ArrayList<>();
        for (Future<RecordMetadata> one : sent) {
            placed.add(placed(one));
        }
        return Map.of("placed", placed);
    }

    private static Future<RecordMetadata> sent(
            KafkaProducer<byte[], byte[]> by, ProducerRecord<byte[], byte[]> record) {
        try {
            return by.send(record);
        } catch (RuntimeException refused) { // of this record alone: those before are on their way
            return CompletableFuture.failedFuture(refused);
        }
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, Arguments one) {
        Integer partition = one.has("partition") ? (Integer) (int) one.number("partition") : null;
        byte[] key = one.bytes("key");
        byte[] value = one.bytes("value");
        if (!HAS_TIMESTAMPS) {
            return new ProducerRecord<>(topic, partition, key, value);
        }
        Long timestamp = one.has("timestamp") ? (Long) one.number("timestamp") : null;
        if (!HAS_HEADERS) {
            return new ProducerRecord<>(topic, partition, timestamp, key, value);
        }
        List<Header> headers = new ArrayList<>();
        for (Map.Entry<String, byte[]> header : one.headers("headers")) {
            headers.add(new RecordHeader(header.getKey(), header.getValue()));
        }
        return new ProducerRecord<>(topic, partition, timestamp, key, value, headers);
    }

    private static Map<String, Object> placed(Future<RecordMetadata> sent)
            throws InterruptedException {
        try {
            RecordMetadata at = sent.get();
            Map<String, Object> place = new LinkedHashMap<>();
            place.put("partition", at.partition());
            place.put("offset", at.offset());
            if (HAS_TIMESTAMPS && at.timestamp() >= 0) {
                place.put("timestamp", at.timestamp());
            }
            return place;
        } catch (ExecutionException failed) {
            return Map.of("error", Failure.of(failed));
        }
    }

    private Object partitions(Arguments arguments) {
        String topic = arguments.text("topic");
        boolean byConsumer = producer == null && consuming != null;
        List<PartitionInfo> found =
            byConsumer ? consuming.partitionsFor(topic) : opened().partitionsFor(topic);
        return Map.of("partitions", found.stream().map(PartitionInfo::partition).sorted().toList());
    }
}
