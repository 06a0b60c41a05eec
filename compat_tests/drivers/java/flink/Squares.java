import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.functions.MapFunction;

/**
 * Turns "key,number" into "key,number,square". It fails on request: tasks run in the driver's own
 * process, so static fields reach them.
 */
final class Squares implements MapFunction<String, String> {
    private static final long serialVersionUID = 1;

    private static final long NEVER = -1;
    private static final AtomicLong LEFT = new AtomicLong(NEVER);
    private static final AtomicInteger FAILURES = new AtomicInteger();

    static void begin() {
        LEFT.set(NEVER);
        FAILURES.set(0);
    }

    /** Let the task fail, once, that gets a record after this many from now on. */
    static void failAfter(long records) {
        LEFT.set(records);
    }

    static int failures() {
        return FAILURES.get();
    }

    @Override
    public String map(String line) {
        if (LEFT.getAndUpdate(left -> left == NEVER ? NEVER : left - 1) == 0) {
            FAILURES.incrementAndGet();
            throw new IllegalStateException("failed on request");
        }
        String[] parts = line.split(",");
        long number = Long.parseLong(parts[1]);
        return parts[0] + "," + number + "," + number * number;
    }
}
