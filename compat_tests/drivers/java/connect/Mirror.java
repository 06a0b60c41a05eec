import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.mirror.MirrorMaker;
import org.apache.kafka.connect.mirror.SourceAndTarget;
import org.apache.kafka.connect.errors.NotFoundException;
import org.apache.kafka.connect.runtime.rest.entities.ConnectorStateInfo;
import org.apache.kafka.connect.runtime.rest.entities.ConnectorStateInfo.AbstractState;

/** MirrorMaker 2 in its dedicated mode, from the broker to itself under another name. */
final class Mirror implements Part {
    private final String bootstrap;
    private SourceAndTarget way;
    private MirrorMaker mirror;

    Mirror(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    @Override
    public void register(Conversation conversation) {
        conversation.follow("start_mirror", this::start);
        conversation.answer("mirror_states", arguments -> states());
        conversation.follow("stop_mirror", arguments -> end());
    }

    @Override
    public void end() {
        if (mirror != null) {
            mirror.stop();
            mirror.awaitStop();
            mirror = null;
        }
    }

    private void start(Arguments arguments) {
        way = new SourceAndTarget(arguments.text("source"), arguments.text("target"));
        Map<String, String> settings = new HashMap<>();
        settings.put("clusters", way.source() + ", " + way.target());
        settings.putAll(Brokers.settings(way.source() + ".", bootstrap));
        settings.putAll(Brokers.settings(way.target() + ".", bootstrap));
        settings.put(way.source() + "->" + way.target() + ".enabled", "true");
        settings.put(way.target() + "->" + way.source() + ".enabled", "false");
        settings.putAll(arguments.pairs("settings"));
        mirror = new MirrorMaker(settings);
        mirror.start();
    }

    /** Of each connector and its tasks, as far as they are known. */
    private Object states() {
        Map<String, Object> connectors = new LinkedHashMap<>();
        for (Class<?> one : MirrorMaker.CONNECTOR_CLASSES) {
            try {
                ConnectorStateInfo info = mirror.connectorStatus(way, one.getSimpleName());
                List<Object> parts = new ArrayList<>(List.of(state(info.connector())));
                info.tasks().forEach(task -> parts.add(state(task)));
                connectors.put(one.getSimpleName(), Map.of("parts", parts));
            } catch (NotFoundException early) {
                // It has not been made yet.
            }
        }
        return Map.of("connectors", connectors);
    }

    private static Map<String, Object> state(AbstractState of) {
        return Map.of("state", of.state(), "trace", of.trace() == null ? "" : of.trace());
    }
}
