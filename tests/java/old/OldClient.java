import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes and reads with the clients on the class path, from 0.8.2 (which can only write) on.
 *
 * write BOOTSTRAP TOPIC CODEC: records on standard input, a line each: partition, timestamp or -,
 * key, value (Base64, or - for null); prints partition and offset of each.
 * read BOOTSTRAP TOPIC ENDS MAX_PARTITION_BYTES: prints partition, offset, timestamp or -, key and
 * value of each record from the first to the one before its partition's end. ENDS is like 0:17,1:21
 * for two partitions.
 *
 * What later versions have, or take in another type, is called by its name.
 */
public final class OldClient {
    private static final int TIMEOUT_MS = 60_000;

    public static void main(String[] args) throws Exception {
        if (args[0].equals("write")) {
            write(args[1], args[2], args[3]);
        } else {
            Map<TopicPartition, Long> ends = new HashMap<>();
            for (String one : args[3].split(",")) {
                String[] parts = one.split(":");
                ends.put(new TopicPartition(args[2], Integer.parseInt(parts[0])),
                    Long.valueOf(parts[1]));
            }
            read(args[1], ends, args[4]);
        }
    }

    private static void write(String bootstrap, String topic, String codec) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("acks", "all");
        settings.put("linger.ms", "5");
        settings.put("compression.type", codec);
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings);
        BufferedReader lines = new BufferedReader(
            new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split(" ");
            sent.add(producer.send(record(topic, fields)));
        }
        StringBuilder out = new StringBuilder();
        for (Future<RecordMetadata> one : sent) {
            RecordMetadata at = one.get();
            out.append(at.partition()).append(' ').append(at.offset()).append('\n');
        }
        producer.close();
        System.out.print(out);
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, String[] fields)
            throws Exception {
        Integer partition = Integer.valueOf(fields[0]);
        byte[] key = bytes(fields[2]);
        byte[] value = bytes(fields[3]);
        if (fields[1].equals("-")) {
            return new ProducerRecord<>(topic, partition, key, value);
        }
        @SuppressWarnings("unchecked")
        ProducerRecord<byte[], byte[]> timed = (ProducerRecord<byte[], byte[]>)
            ProducerRecord.class
                .getConstructor(String.class, Integer.class, Long.class, Object.class, Object.class)
                .newInstance(topic, partition, Long.valueOf(fields[1]), key, value);
        return timed;
    }

    private static void read(String bootstrap, Map<TopicPartition, Long> ends, String maxBytes)
            throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("max.partition.fetch.bytes", maxBytes);
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
        List<TopicPartition> all = new ArrayList<>(ends.keySet());
        named(consumer, "assign").invoke(consumer, all);
        Method toBeginning = named(consumer, "seekToBeginning");
        toBeginning.invoke(consumer,
            toBeginning.isVarArgs() ? all.toArray(new TopicPartition[0]) : all);
        StringBuilder out = new StringBuilder();
        long deadline = System.currentTimeMillis() + TIMEOUT_MS;
        while (isBefore(consumer, ends)) {
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("not at the end in time");
            }
            for (ConsumerRecord<byte[], byte[]> one : consumer.poll(500)) {
                out.append(one.partition()).append(' ').append(one.offset()).append(' ')
                    .append(timestamp(one)).append(' ').append(text(one.key())).append(' ')
                    .append(text(one.value())).append('\n');
            }
        }
        consumer.close();
        System.out.print(out);
    }

    private static boolean isBefore(KafkaConsumer<?, ?> consumer, Map<TopicPartition, Long> ends) {
        for (Map.Entry<TopicPartition, Long> one : ends.entrySet()) {
            if (consumer.position(one.getKey()) < one.getValue()) {
                return true;
            }
        }
        return false;
    }

    private static Method named(Object object, String name) {
        for (Method method : object.getClass().getMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == 1) {
                return method;
            }
        }
        throw new IllegalStateException("no method " + name);
    }

    private static String timestamp(ConsumerRecord<byte[], byte[]> one) throws Exception {
        try {
            return one.getClass().getMethod("timestampType").invoke(one) + ":"
                + one.getClass().getMethod("timestamp").invoke(one);
        } catch (NoSuchMethodException before_0_10) {
            return "-";
        }
    }

    private static String text(byte[] bytes) {
        return bytes == null ? "-" : "=" + Base64.getEncoder().encodeToString(bytes);
    }

    private static byte[] bytes(String text) {
        return text.equals("-") ? null : Base64.getDecoder().decode(text.substring(1));
    }
}
