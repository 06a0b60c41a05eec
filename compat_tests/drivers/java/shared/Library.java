import java.net.URL;
import java.util.Arrays;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.producer.KafkaProducer;

/** What there is in the kafka-clients on the class path. */
final class Library {
    static final String CLIENTS = "org.apache.kafka.clients.";

    private static final Pattern JAR = Pattern.compile("kafka-clients-(.+)\\.jar$");

    private Library() {
    }

    /** Its version, out of the name of its jar: 0.8.2 has it nowhere else. */
    static String version() {
        URL jar = KafkaProducer.class.getProtectionDomain().getCodeSource().getLocation();
        Matcher found = JAR.matcher(jar.getPath());
        if (!found.find()) {
            throw new IllegalStateException("no version in " + jar);
        }
        return found.group(1);
    }

    static boolean hasClass(String name) {
        try {
            Class.forName(CLIENTS + name, false, Library.class.getClassLoader());
            return true;
        } catch (ClassNotFoundException absent) {
            return false;
        }
    }

    static boolean hasMethod(Class<?> of, String name) {
        return Arrays.stream(of.getMethods()).anyMatch(one -> one.getName().equals(name));
    }

    static boolean hasField(Class<?> of, String name) {
        return Arrays.stream(of.getFields()).anyMatch(one -> one.getName().equals(name));
    }
}
