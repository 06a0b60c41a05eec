import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;

/** How the brokers are reached: addresses, TLS, the login, the id (see ../../README.md). */
final class Brokers {
    private static final String SECURITY = System.getenv("KAVKA_COMPAT_SECURITY");
    private static final String CLIENT_ID = System.getenv("KAVKA_COMPAT_CLIENT_ID");

    private Brokers() {
    }

    /** Settings of any of the library's clients. */
    static Map<String, String> settings(String bootstrap) {
        return settings("", bootstrap);
    }

    /** The same for one of several clients that a program's settings speak of. */
    static Map<String, String> settings(String prefix, String bootstrap) {
        Map<String, String> found = new LinkedHashMap<>();
        found.put(prefix + "bootstrap.servers", bootstrap);
        if (CLIENT_ID != null) {
            found.put(prefix + "client.id", CLIENT_ID);
        }
        security().forEach((name, value) -> found.put(prefix + name, value));
        return found;
    }

    private static Map<String, String> security() {
        if (SECURITY == null) {
            return Map.of();
        }
        try {
            Object file = Json.read(Files.readString(Path.of(SECURITY)));
            return new Arguments(file).pairs("properties");
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }
}
