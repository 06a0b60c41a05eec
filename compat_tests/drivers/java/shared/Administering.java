import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;

/** The requests for an admin client that versions from 1.1 on carry out alike. */
abstract class Administering implements Part {
    private static final int BROKERS_DEFAULT = -1;

    private final String bootstrap;
    private AdminClient admin;

    Administering(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    protected abstract TopicDescription description(String topic) throws Exception;

    protected abstract void closeWithin(AdminClient closed, long ms);

    @Override
    public List<String> features() {
        return List.of("create_topic", "delete_topic", "create_partitions", "list_topics",
            "describe_topic", "describe_configs", "delete_records", "describe_cluster");
    }

    @Override
    public void register(Conversation conversation) {
        conversation.follow("create_topic", this::createTopic);
        conversation.follow("delete_topic", arguments ->
            admin().deleteTopics(List.of(arguments.text("topic"))).all().get());
        conversation.follow("create_partitions", this::createPartitions);
        conversation.answer("list_topics", arguments ->
            Map.of("topics", new TreeSet<>(admin().listTopics().names().get())));
        conversation.answer("describe_topic", this::describeTopic);
        conversation.answer("describe_configs", this::describeConfigs);
        conversation.answer("delete_records", this::deleteRecords);
        conversation.answer("describe_cluster", this::describeCluster);
    }

    @Override
    public void end() {
        if (admin != null) {
            closeWithin(admin, CLOSE_WITHIN_MS);
        }
    }

    /** The admin client, which is made when the first request needs it. */
    protected AdminClient admin() {
        if (admin == null) {
            admin = AdminClient.create(new HashMap<>(Brokers.settings(bootstrap)));
        }
        return admin;
    }

    protected static ConfigResource resource(Arguments arguments) {
        return new ConfigResource(ConfigResource.Type.TOPIC, arguments.text("topic"));
    }

    private void createTopic(Arguments arguments) throws Exception {
        int partitions = (int) arguments.number("partitions", BROKERS_DEFAULT);
        short replicas = (short) arguments.number("replicas", BROKERS_DEFAULT);
        NewTopic topic = new NewTopic(arguments.text("topic"), partitions, replicas)
            .configs(arguments.pairs("configs"));
        admin().createTopics(List.of(topic)).all().get();
    }

    private void createPartitions(Arguments arguments) throws Exception {
        NewPartitions grown = NewPartitions.increaseTo((int) arguments.number("total"));
        admin().createPartitions(Map.of(arguments.text("topic"), grown)).all().get();
    }

    private Object describeTopic(Arguments arguments) throws Exception {
        List<TopicPartitionInfo> partitions =
            new ArrayList<>(description(arguments.text("topic")).partitions());
        partitions.sort(Comparator.comparingInt(TopicPartitionInfo::partition));
        List<Object> told = new ArrayList<>();
        for (TopicPartitionInfo one : partitions) {
            told.add(Map.of("partition", one.partition(), "leader", number(one.leader()),
                "replicas", numbers(one.replicas()), "isr", numbers(one.isr())));
        }
        return Map.of("partitions", told);
    }

    private Object describeConfigs(Arguments arguments) throws Exception {
        ConfigResource topic = resource(arguments);
        Map<String, String> configs = new LinkedHashMap<>();
        for (ConfigEntry one :
                admin().describeConfigs(List.of(topic)).all().get().get(topic).entries()) {
            configs.put(one.name(), one.value());
        }
        return Map.of("configs", configs);
    }

    private Object deleteRecords(Arguments arguments) throws Exception {
        TopicPartition partition = Places.partition(arguments);
        RecordsToDelete old = RecordsToDelete.beforeOffset(arguments.number("before"));
        return Map.of("earliest", admin().deleteRecords(Map.of(partition, old))
            .lowWatermarks().get(partition).get().lowWatermark());
    }

    private Object describeCluster(Arguments arguments) throws Exception {
        DescribeClusterResult cluster = admin().describeCluster();
        return Map.of("cluster_id", cluster.clusterId().get(),
            "controller", number(cluster.controller().get()),
            "brokers", numbers(cluster.nodes().get()).stream().sorted().toList());
    }

    private static int number(Node node) {
        return node == null ? Node.noNode().id() : node.id();
    }

    private static List<Integer> numbers(Iterable<Node> nodes) {
        List<Integer> found = new ArrayList<>();
        nodes.forEach(one -> found.add(one.id()));
        return found;
    }
}
