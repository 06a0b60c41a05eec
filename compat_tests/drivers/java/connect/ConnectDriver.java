import java.io.IOException;
import java.util.List;

/** The driver for Kafka Connect, and for MirrorMaker 2, which is built on it. */
public final class ConnectDriver {
    private ConnectDriver() {
    }

    public static void main(String[] args) throws IOException {
        Conversation.hold("kafka-connect", List.of(new Worker(args[0]), new Mirror(args[0])));
    }
}
