import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Apache Kafka's command line tools one after another in this one process.
 *
 * In:  number of strings (4 bytes), then each as length (4) and UTF-8: a class and its arguments;
 *      length (4) and standard input.
 * Out: exit code (4), length (4) and standard output, length (4) and standard error.
 */
public final class RunTools {
    /** Takes the place of the end of the process; an Error, since many tools catch exceptions. */
    private static final class Ended extends Error {
        private static final long serialVersionUID = 1;

        Ended() {
            super("the tool has ended", null, false, false);
        }
    }

    /** What a tool leaves behind when it first ends; what it does then, the process would not. */
    private static final class Result {
        final int code;
        final byte[] output = PRINTED.take();
        final byte[] errors = COMPLAINED.take();

        Result(int code) {
            this.code = code;
        }
    }

    /** Some classes keep the first System.out that they see, so that one stays and is emptied. */
    private static final class Captured extends OutputStream {
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();

        @Override
        public synchronized void write(int one) {
            bytes.write(one);
        }

        @Override
        public synchronized void write(byte[] from, int offset, int length) {
            bytes.write(from, offset, length);
        }

        synchronized byte[] take() {
            byte[] taken = bytes.toByteArray();
            bytes.reset();
            return taken;
        }
    }

    private static final Captured PRINTED = new Captured();
    private static final Captured COMPLAINED = new Captured();

    /** What a tool wants done when the process ends. */
    private static final List<Runnable> HOOKS = new ArrayList<>();

    private static Result result;

    public static void main(String[] arguments) throws Exception {
        DataInputStream in = new DataInputStream(System.in);
        DataOutputStream out = new DataOutputStream(System.out);
        System.setOut(new PrintStream(PRINTED, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(COMPLAINED, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> end(code));
        Exit.setHaltProcedure((code, message) -> end(code));
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        while (true) {
            int count;
            try {
                count = in.readInt();
            } catch (EOFException end) {
                return;
            }
            String tool = read(in);
            String[] given = new String[count - 1];
            for (int i = 0; i < given.length; i++) {
                given[i] = read(in);
            }
            byte[] input = new byte[in.readInt()];
            in.readFully(input);
            System.setIn(new ByteArrayInputStream(input));
            result = null;
            HOOKS.clear();
            int code = run(tool, given);
            if (result == null) {
                HOOKS.forEach(Runnable::run);
            }
            Result left = result == null ? new Result(code) : result;
            PRINTED.take();
            COMPLAINED.take();
            out.writeInt(left.code);
            write(out, left.output);
            write(out, left.errors);
            out.flush();
        }
    }

    private static void end(int code) {
        if (result == null) {
            HOOKS.forEach(Runnable::run);
            result = new Result(code);
        }
        throw new Ended();
    }

    /** The exit code of a tool that does not end the process. */
    private static int run(String tool, String[] arguments) throws ReflectiveOperationException {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException thrown) {
            if (result == null) {
                thrown.getCause().printStackTrace();
            }
            return 1;
        }
    }

    private static String read(DataInputStream in) throws IOException {
        byte[] bytes = new byte[in.readInt()];
        in.readFully(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private static void write(DataOutputStream out, byte[] bytes) throws IOException {
        out.writeInt(bytes.length);
        out.write(bytes);
    }
}
