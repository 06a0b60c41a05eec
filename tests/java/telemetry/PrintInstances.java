import java.time.Duration;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Prints the instance ids of a producer, a consumer and an admin client, each asked for twice. */
public class PrintInstances {
    private static final Duration WITHIN = Duration.ofSeconds(30);

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String topic = arguments[1];
        Map<String, Object> common = Map.of("bootstrap.servers", bootstrap);
        try (Admin admin = Admin.create(with(common, "an-admin"));
            KafkaProducer<String, String> producer =
                new KafkaProducer<>(
                    with(common, "a-producer"), new StringSerializer(), new StringSerializer());
            KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(
                    with(common, "a-consumer"),
                    new StringDeserializer(),
                    new StringDeserializer())) {
            producer.send(new ProducerRecord<>(topic, "value")).get();
            consumer.subscribe(Set.of(topic));
            // a consumer has no id before its first poll
            report("none", consumer.clientInstanceId(Duration.ofMillis(1)), null);
            for (int count = 0; count == 0; ) {
                count = consumer.poll(WITHIN).count();
            }
            report("an-admin", admin.clientInstanceId(WITHIN), admin.clientInstanceId(WITHIN));
            report("a-producer", producer.clientInstanceId(WITHIN), producer.clientInstanceId(WITHIN));
            report("a-consumer", consumer.clientInstanceId(WITHIN), consumer.clientInstanceId(WITHIN));
        }
    }

    private static Map<String, Object> with(Map<String, Object> common, String clientId) {
        Map<String, Object> settings = new java.util.HashMap<>(common);
        settings.put("client.id", clientId);
        settings.put("enable.metrics.push", true);
        settings.put("group.id", "a-group");
        settings.put("auto.offset.reset", "earliest");
        return settings;
    }

    private static void report(String client, Object id, Object again) {
        System.out.println(client + " " + id + " " + again);
    }
}
