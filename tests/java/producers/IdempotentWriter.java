import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.concurrent.Semaphore;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * An idempotent producer that writes until its standard input ends or a record has failed. What it
 * is given and reports is described in tests/support/misbehaviour/producers.py.
 */
public final class IdempotentWriter {
    private static final int OUTSTANDING_MAX = 500;
    private static final String PADDING = ".".repeat(200);
    private static volatile boolean ending;

    public static void main(String[] args) throws Exception {
        String topic = args[1];
        int partitions = Integer.parseInt(args[2]);
        Thread listener = new Thread(IdempotentWriter::awaitEnd);
        listener.setDaemon(true);
        listener.start();
        Semaphore room = new Semaphore(OUTSTANDING_MAX);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
                properties(args), new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int count = 0; !ending; count++) {
                int partition = count % partitions;
                int number = count / partitions;
                String value = args[3] + "/" + partition + "/" + number + "/" + PADDING;
                room.acquire();
                producer.send(
                    new ProducerRecord<>(
                        topic, partition, null, value.getBytes(StandardCharsets.UTF_8)),
                    (metadata, failure) -> {
                        report(partition, number, failure == null ? metadata.offset() : -1, failure);
                        room.release();
                    });
            }
        }
        System.out.flush();
    }

    private static synchronized void report(
            int partition, int number, long offset, Exception failure) {
        String at = partition + " " + number + " ";
        if (failure == null) {
            System.out.println("ack " + at + offset);
        } else {
            System.out.println("fail " + at + failure.toString().replace('\n', ' '));
            ending = true;
        }
    }

    private static void awaitEnd() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (java.io.IOException gone) {
            System.err.println(gone);
        }
        ending = true;
    }

    private static Properties properties(String[] args) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("acks", "all");
        properties.put("enable.idempotence", "true");
        for (int at = 4; at < args.length; at++) {
            String[] setting = args[at].split("=", 2);
            properties.put(setting[0], setting[1]);
        }
        return properties;
    }
}
