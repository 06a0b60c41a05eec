package org.apache.kafka.common.test.junit;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.ClusterTest;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.apache.kafka.test.TestUtils;
import org.opentest4j.TestAbortedException;

/**
 * A cluster whose brokers are processes of their own. The process that listens at the port in the
 * system property `foreign.clusters` (tests/support/foreign_clusters.py) gets a line of JSON that
 * says what a test asks for, answers with a cluster's address or with the reason why there is none, and ends
 * the cluster when this side of the connection is closed; then it says what went wrong in it.
 *
 * A test that wants what only brokers of the same JVM have is aborted with that as the reason.
 */
final class OutsideCluster implements ClusterInstance {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String test;
    private final ClusterTest wanted;
    private final Type type;
    private Socket connection;
    private BufferedReader answers;
    private String bootstrap;

    OutsideCluster(String test, ClusterTest wanted, Type type) {
        this.test = test;
        this.wanted = wanted;
        this.type = type;
    }

    void open() throws IOException {
        connection = new Socket("127.0.0.1", Integer.getInteger("foreign.clusters"));
        answers = new BufferedReader(
                new InputStreamReader(connection.getInputStream(), StandardCharsets.UTF_8));
        Map<String, Object> request = Map.of(
                "test", test,
                "asked", ClusterTestExtensions.asked(wanted),
                "metadataVersion", ClusterTestExtensions.plain(wanted.metadataVersion()));
        connection.getOutputStream().write((JSON.writeValueAsString(request) + "\n").getBytes());
        JsonNode answer = answer();
        if (answer.has("reason")) {
            throw new TestAbortedException(answer.get("reason").asText());
        }
        bootstrap = answer.get("bootstrap").asText();
    }

    void close() throws IOException {
        try (Socket ended = connection) {
            if (bootstrap != null) {
                ended.shutdownOutput();
                answer();
            }
        }
    }

    private JsonNode answer() throws IOException {
        String line = answers.readLine();
        if (line == null) {
            throw new IllegalStateException("no answer about a cluster");
        }
        JsonNode answer = JSON.readTree(line);
        if (answer.has("failure")) {
            throw new IllegalStateException(answer.get("failure").asText());
        }
        return answer;
    }

    @Override
    public String bootstrapServers() {
        return bootstrap;
    }

    @Override
    public Type type() {
        return type;
    }

    @Override
    public ClusterConfig config() {
        return ClusterConfig.defaultBuilder()
                .setTypes(Set.of(type))
                .setBrokers(Math.max(1, wanted.brokers()))
                .setMetadataVersion(wanted.metadataVersion())
                .build();
    }

    @Override
    public ListenerName clientListener() {
        return ListenerName.normalised("PLAINTEXT");
    }

    @Override
    public String clusterId() {
        return get(admin -> admin.describeCluster().clusterId().get());
    }

    @Override
    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        TestUtils.waitForCondition(() -> hasLeaders(topic, partitions), topic + " has leaders");
    }

    private boolean hasLeaders(String topic, int partitions) {
        if (!get(admin -> admin.listTopics().names().get()).contains(topic)) {
            return false;
        }
        TopicDescription found = get(
                admin -> admin.describeTopics(Set.of(topic)).allTopicNames().get().get(topic));
        return found.partitions().size() == partitions
                && found.partitions().stream().allMatch(one -> one.leader() != null);
    }

    private interface Question<T> {
        T ask(Admin admin) throws Exception;
    }

    private <T> T get(Question<T> question) {
        try (Admin admin = admin()) {
            return question.ask(admin);
        } catch (Exception failure) {
            throw new IllegalStateException(failure);
        }
    }

    @Override
    public void start() {}

    @Override
    public boolean started() {
        return bootstrap != null;
    }

    private static TestAbortedException inside(String what) {
        return new TestAbortedException("it asks for " + what + ", which brokers of its JVM have");
    }

    @Override
    public Map<Integer, KafkaBroker> brokers() {
        throw inside("brokers()");
    }

    @Override
    public Map<Integer, ControllerServer> controllers() {
        throw inside("controllers()");
    }

    @Override
    public Set<Integer> controllerIds() {
        throw inside("controllerIds()");
    }

    @Override
    public ListenerName controllerListenerName() {
        throw inside("controllerListenerName()");
    }

    @Override
    public String bootstrapControllers() {
        throw inside("bootstrapControllers()");
    }

    @Override
    public Optional<FaultHandlerException> firstFatalException() {
        throw inside("firstFatalException()");
    }

    @Override
    public Optional<FaultHandlerException> firstNonFatalException() {
        throw inside("firstNonFatalException()");
    }

    @Override
    public void stop() {
        throw inside("stop()");
    }

    @Override
    public boolean stopped() {
        throw inside("stopped()");
    }

    @Override
    public void shutdownBroker(int id) {
        throw inside("shutdownBroker()");
    }

    @Override
    public void startBroker(int id) {
        throw inside("startBroker()");
    }

    @Override
    public void waitForReadyBrokers() {}
}
