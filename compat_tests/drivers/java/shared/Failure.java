import java.lang.reflect.InvocationTargetException;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.common.protocol.Errors;

/** What a response says of an error. */
final class Failure {
    private Failure() {
    }

    static Map<String, Object> of(Throwable thrown) {
        Throwable told = thrown;
        while (told instanceof ExecutionException || told instanceof InvocationTargetException) {
            told = told.getCause();
        }
        String message = told.getMessage();
        return Map.of("name", name(told), "message", message == null ? told.toString() : message);
    }

    /** The error's name in the protocol, if it or what caused it has one; else the exception's. */
    private static String name(Throwable told) {
        for (Throwable one = told; one != null; one = one.getCause()) {
            String name = protocolName(one);
            if (name != null) {
                return name;
            }
        }
        return told.getClass().getSimpleName();
    }

    private static String protocolName(Throwable thrown) {
        String itself = thrown.getClass().getSimpleName();
        if (itself.equals("OffsetOutOfRangeException")) {
            return Errors.OFFSET_OUT_OF_RANGE.name(); // the consumer has a class of its own for it
        }
        if (itself.equals("UnknownServerException")) {
            return "UNKNOWN_SERVER_ERROR"; // what the library calls all that it cannot tell, too
        }
        String name = Errors.forException(thrown).name();
        return name.equals("UNKNOWN") || name.equals("UNKNOWN_SERVER_ERROR") ? null : name;
    }
}
