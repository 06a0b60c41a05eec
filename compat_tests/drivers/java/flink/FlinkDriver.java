import java.io.IOException;
import java.util.List;
import org.apache.flink.runtime.util.EnvironmentInformation;

/** The driver for Flink's source and sink. */
public final class FlinkDriver {
    private FlinkDriver() {
    }

    public static void main(String[] args) throws IOException {
        Conversation.hold("flink", EnvironmentInformation.getVersion(), List.of(new Jobs(args[0])));
    }
}
