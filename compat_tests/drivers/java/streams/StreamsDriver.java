import java.io.IOException;
import java.util.List;

/** The driver for Kafka Streams. */
public final class StreamsDriver {
    private StreamsDriver() {
    }

    public static void main(String[] args) throws IOException {
        Conversation.hold("kafka-streams", List.of(new WordCount(args[0])));
    }
}
