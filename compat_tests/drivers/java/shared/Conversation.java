import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads requests, a line each, has them carried out, and writes the responses. */
final class Conversation {
    /** How one kind of request is carried out; what it returns is the result. */
    interface Action {
        Object carryOut(Arguments arguments) throws Exception;
    }

    /** How one kind of request is carried out whose result is empty. */
    interface Step {
        void take(Arguments arguments) throws Exception;
    }

    private final Map<String, Action> actions = new HashMap<>();

    void answer(String request, Action action) {
        actions.put(request, action);
    }

    void follow(String request, Step step) {
        actions.put(request, arguments -> {
            step.take(arguments);
            return Map.of();
        });
    }

    /** Talk until the end of the input, then end all parts. */
    static void hold(List<Part> parts) throws IOException {
        hold("kafka-clients", parts);
    }

    /** The same for an application, which has the version of the client that it is built on. */
    static void hold(String client, List<Part> parts) throws IOException {
        hold(client, Library.version(), parts);
    }

    /** The same for an application that has versions of its own. */
    static void hold(String client, String version, List<Part> parts) throws IOException {
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "warn");
        FileOutputStream stdout = new FileOutputStream(FileDescriptor.out);
        System.setOut(System.err); // should a library print, it must not break the conversation
        BufferedReader lines = new BufferedReader(
            new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Conversation conversation = new Conversation();
        List<String> can = new ArrayList<>();
        for (Part one : parts) {
            can.addAll(one.features());
            one.register(conversation);
        }
        conversation.answer("hello", arguments -> Map.of(
            "client", client, "version", version, "can", can));
        try (PrintStream out = new PrintStream(stdout, false, StandardCharsets.UTF_8)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                out.print(Json.write(conversation.response(new Arguments(Json.read(line)))) + "\n");
                out.flush();
            }
        }
        parts.forEach(Part::end);
    }

    private Map<String, Object> response(Arguments request) {
        Map<String, Object> response = new LinkedHashMap<>();
        response.put("id", request.number("id"));
        try {
            response.put("result", action(request.text("do")).carryOut(request));
        } catch (Throwable thrown) { // a codec's native code may be missing, a stack overflow
            thrown.printStackTrace();
            response.put("error", Failure.of(thrown));
        }
        return response;
    }

    private Action action(String name) {
        Action found = actions.get(name);
        if (found == null) {
            throw new UnsupportedOperationException("this version cannot do '" + name + "'");
        }
        return found;
    }
}
