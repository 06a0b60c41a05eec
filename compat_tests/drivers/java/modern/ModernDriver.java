import java.io.IOException;
import java.util.List;

/** The driver for kafka-clients from 2.8 to 4. */
public final class ModernDriver {
    private ModernDriver() {
    }

    public static void main(String[] args) throws IOException {
        ModernConsuming consuming = new ModernConsuming(args[0]);
        Conversation.hold(List.of(new ModernProducing(args[0], consuming), consuming,
            new ModernAdministering(args[0])));
    }
}
