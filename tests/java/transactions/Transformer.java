import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.StringJoiner;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * One instance that consumes, transforms and produces in transactions. What it reads and reports
 * is described in tests/support/transactions/programs/reporting.py.
 */
public final class Transformer {
    private static final int BATCH = 100;
    private static final int DWELL_MS = 20;
    private static final int ABORTED_EVERY = 8;
    private static final Duration POLL = Duration.ofMillis(100);
    private static final String PACKAGE = "org.apache.kafka.common.serialization.ByteArray";
    private static final FileOutputStream OUT = new FileOutputStream(FileDescriptor.out);

    private final String source;
    private final String target;
    private final String name;
    private final CountDownLatch fields = new CountDownLatch(1);
    private volatile boolean leaving;
    private boolean holds;
    private int attempt;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final KafkaProducer<byte[], byte[]> producer;

    public static void main(String[] args) {
        try {
            new Transformer(args).run();
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    private Transformer(String[] args) {
        source = args[1];
        target = args[2];
        name = args[5];
        Properties ofConsumer = settings(args, "consumer.");
        ofConsumer.put("group.id", args[3]);
        ofConsumer.put("enable.auto.commit", "false");
        ofConsumer.put("auto.offset.reset", "earliest");
        ofConsumer.put("isolation.level", "read_committed");
        ofConsumer.put("max.poll.records", String.valueOf(BATCH));
        ofConsumer.put("key.deserializer", PACKAGE + "Deserializer");
        ofConsumer.put("value.deserializer", PACKAGE + "Deserializer");
        consumer = new KafkaConsumer<>(ofConsumer);
        Properties ofProducer = settings(args, "producer.");
        ofProducer.put("transactional.id", args[4]);
        ofProducer.put("key.serializer", PACKAGE + "Serializer");
        ofProducer.put("value.serializer", PACKAGE + "Serializer");
        producer = new KafkaProducer<>(ofProducer);
    }

    private Properties settings(String[] args, String of) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("client.id", name);
        for (int i = 6; i < args.length; i++) {
            String[] parts = args[i].split("=", 2);
            if (parts[0].startsWith(of)) {
                settings.put(parts[0].substring(of.length()), parts[1]);
            }
            holds |= args[i].equals("hold=true");
        }
        return settings;
    }

    private void run() {
        Thread listener = new Thread(this::listen);
        listener.setDaemon(true);
        listener.start();
        try {
            producer.initTransactions();
            consumer.subscribe(List.of(source));
            report("ready", "");
            while (!leaving) {
                ConsumerRecords<byte[], byte[]> found = consumer.poll(POLL);
                if (!found.isEmpty()) {
                    transact(found);
                }
            }
            close();
            report("left", "");
        } catch (ProducerFencedException | InvalidProducerEpochException fenced) {
            tellEnd("fenced", fenced);
            close();
        } catch (Throwable error) {
            tellEnd("failed", error);
            throw error;
        }
    }

    private void close() {
        producer.close(Duration.ofSeconds(5));
        consumer.close();
    }

    private void listen() {
        try {
            BufferedReader lines = new BufferedReader(
                new InputStreamReader(System.in, StandardCharsets.UTF_8));
            while (lines.readLine() != null) {
                fields.countDown();
            }
        } catch (IOException broken) {
            broken.printStackTrace();
        }
        leaving = true;
        fields.countDown();
    }

    private void transact(ConsumerRecords<byte[], byte[]> found) {
        attempt++;
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (TopicPartition at : found.partitions()) {
            List<ConsumerRecord<byte[], byte[]>> records = found.records(at);
            offsets.put(at, new OffsetAndMetadata(records.get(records.size() - 1).offset() + 1));
        }
        try {
            producer.beginTransaction();
            write(found);
            if (holds) {
                hold(found);
            } else if (attempt % ABORTED_EVERY == 0) {
                producer.flush();
                throw new KafkaException("on purpose");
            } else if (attempt % 2 == 1) {
                producer.flush();
                dwell();
            }
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            commit();
        } catch (ProducerFencedException fenced) {
            throw fenced;
        } catch (KafkaException error) {
            producer.abortTransaction();
            tellEnd("aborted", error);
            rewind(found);
            return;
        }
        report("committed", attemptIs());
    }

    private void dwell() {
        try {
            Thread.sleep(DWELL_MS);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    private void commit() {
        report("committing", attemptIs());
        while (true) {
            try {
                producer.commitTransaction();
                return;
            } catch (TimeoutException again) {
                again.printStackTrace();
            }
        }
    }

    private void rewind(ConsumerRecords<byte[], byte[]> found) {
        for (TopicPartition at : found.partitions()) {
            if (consumer.assignment().contains(at)) {
                consumer.seek(at, found.records(at).get(0).offset());
            }
        }
    }

    private Future<RecordMetadata> write(ConsumerRecords<byte[], byte[]> found) {
        Future<RecordMetadata> last = null;
        StringJoiner ranges = new StringJoiner(",", ",\"r\":[", "]");
        for (TopicPartition at : found.partitions()) {
            long first = -1;
            long end = -1;
            for (ConsumerRecord<byte[], byte[]> record : found.records(at)) {
                if (first >= 0 && record.offset() != end) {
                    ranges.add(range(at, first, end - 1));
                    first = -1;
                }
                first = first < 0 ? record.offset() : first;
                end = record.offset() + 1;
                last = producer.send(
                    new ProducerRecord<>(target, at.partition(), null, transformed(record)));
            }
            ranges.add(range(at, first, end - 1));
        }
        report("sent", attemptIs() + ranges);
        return last;
    }

    private void hold(ConsumerRecords<byte[], byte[]> found) {
        holds = false;
        producer.flush();
        report("held", attemptIs());
        try {
            fields.await();
            Future<RecordMetadata> last = write(found);
            producer.flush();
            last.get();
        } catch (KafkaException error) {
            tellEnd("refused", error);
            throw error;
        } catch (Exception error) {
            tellEnd("refused", error.getCause());
            throw new KafkaException(error);
        }
    }

    private byte[] transformed(ConsumerRecord<byte[], byte[]> record) {
        String[] parts = new String(record.value(), StandardCharsets.UTF_8).split("/", 3);
        String made = parts[0] + "/" + parts[1] + "/" + name + "/" + attempt + "/"
            + parts[2].toUpperCase(Locale.ROOT);
        return made.getBytes(StandardCharsets.UTF_8);
    }

    private String attemptIs() {
        return ",\"a\":" + attempt;
    }

    private void tellEnd(String what, Throwable why) {
        report(what, attemptIs() + ",\"why\":" + text(String.valueOf(why)));
    }

    private void report(String what, String more) {
        String line = "{\"t\":" + System.currentTimeMillis() + ",\"m\":" + text(name)
            + ",\"e\":\"" + what + "\"" + more + "}\n";
        try {
            OUT.write(line.getBytes(StandardCharsets.UTF_8));
        } catch (IOException pipeIsClosed) {
            throw new IllegalStateException(pipeIsClosed);
        }
    }

    private static String range(TopicPartition at, long first, long last) {
        return "[" + text(at.topic() + "/" + at.partition()) + "," + first + "," + last + "]";
    }

    private static String text(String plain) {
        StringBuilder out = new StringBuilder("\"");
        for (char one : plain.toCharArray()) {
            if (one == '"' || one == '\\') {
                out.append('\\').append(one);
            } else {
                out.append(one < ' ' ? ' ' : one);
            }
        }
        return out.append('"').toString();
    }
}
