import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/**
 * The driver for kafka-clients from 0.8.2, which has a producer alone (its KafkaConsumer is an
 * empty shell), to 1.1, which has an admin client too.
 */
public final class OldDriver {
    private OldDriver() {
    }

    public static void main(String[] args) throws IOException {
        boolean consumes = Library.hasMethod(KafkaConsumer.class, "assign");
        OldConsuming consuming = consumes ? new OldConsuming(args[0]) : null;
        List<Part> parts = new ArrayList<>();
        parts.add(new OldProducing(args[0], consuming));
        if (consumes) {
            parts.add(consuming);
        }
        if (Library.hasClass("admin.AdminClient")) {
            parts.add(new OldAdministering(args[0]));
        }
        Conversation.hold(parts);
    }
}
