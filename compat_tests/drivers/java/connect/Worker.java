import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.cli.ConnectDistributed;
import org.apache.kafka.connect.runtime.Connect;

/** A worker of Kafka Connect's distributed mode, and its REST interface. */
final class Worker implements Part {
    private static final String HOST = "127.0.0.1";
    private static final String JSON = "application/json";

    private final String bootstrap;
    private final HttpClient http = HttpClient.newHttpClient();
    private Connect<?> connect;
    private String address;

    Worker(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    @Override
    public void register(Conversation conversation) {
        conversation.answer("start_worker", this::start);
        conversation.answer("rest", this::rest);
        conversation.follow("stop_worker", arguments -> end());
    }

    @Override
    public void end() {
        if (connect != null) {
            connect.stop();
            connect.awaitStop();
            connect = null;
        }
    }

    private Object start(Arguments arguments) throws IOException {
        String worker = HOST + ":" + freePort(); // other workers must know it: 0 would not do
        address = "http://" + worker;
        Map<String, String> settings = new HashMap<>(arguments.pairs("settings"));
        settings.putAll(Brokers.settings(bootstrap));
        for (String client : List.of("producer.", "consumer.", "admin.")) { // of its connectors
            settings.putAll(Brokers.settings(client, bootstrap));
        }
        settings.put("listeners", address);
        connect = new ConnectDistributed().startConnect(settings);
        return Map.of("worker", worker);
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getByName(HOST))) {
            return socket.getLocalPort();
        }
    }

    private Object rest(Arguments arguments) throws IOException, InterruptedException {
        BodyPublisher body = arguments.has("body")
            ? BodyPublishers.ofString(Json.write(arguments.pairs("body")))
            : BodyPublishers.noBody();
        HttpRequest request = HttpRequest.newBuilder(URI.create(address + arguments.text("path")))
            .method(arguments.text("method"), body)
            .header("Content-Type", JSON)
            .header("Accept", JSON)
            .build();
        HttpResponse<String> response = http.send(request, BodyHandlers.ofString());
        Map<String, Object> result = new HashMap<>();
        result.put("status", response.statusCode());
        result.put("body", response.body().isEmpty() ? null : Json.read(response.body()));
        return result;
    }
}
