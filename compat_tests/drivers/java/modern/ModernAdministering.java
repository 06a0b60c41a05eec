import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.DescribeTopicsResult;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;

/** An admin client of 2.8 to 4. */
final class ModernAdministering extends Administering {
    ModernAdministering(String bootstrap) {
        super(bootstrap);
    }

    @Override
    public List<String> features() {
        List<String> can = new ArrayList<>(super.features());
        can.addAll(List.of("alter_configs", "list_groups", "describe_group", "delete_group",
            "group_offsets"));
        return can;
    }

    @Override
    public void register(Conversation conversation) {
        super.register(conversation);
        conversation.follow("alter_configs", this::alterConfigs);
        conversation.answer("list_groups", arguments -> Map.of("groups",
            admin().listConsumerGroups().all().get().stream()
                .map(ConsumerGroupListing::groupId).sorted().toList()));
        conversation.answer("describe_group", this::describeGroup);
        conversation.follow("delete_group", arguments ->
            admin().deleteConsumerGroups(List.of(arguments.text("group"))).all().get());
        conversation.answer("group_offsets", this::groupOffsets);
    }

    /** What 4 gives under the newer of two names, and 2.8 knows by the older one alone. */
    @Override
    protected TopicDescription description(String topic) throws Exception {
        DescribeTopicsResult asked = admin().describeTopics(List.of(topic));
        boolean isOld = !Library.hasMethod(DescribeTopicsResult.class, "topicNameValues");
        Map<?, ?> futures = isOld ? asked.values()
            : (Map<?, ?>) DescribeTopicsResult.class.getMethod("topicNameValues").invoke(asked);
        return (TopicDescription) ((KafkaFuture<?>) futures.get(topic)).get();
    }

    private void alterConfigs(Arguments arguments) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        arguments.pairs("set").forEach((name, value) -> changes.add(
            new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
        arguments.texts("remove").forEach(name -> changes.add(
            new AlterConfigOp(new ConfigEntry(name, ""), AlterConfigOp.OpType.DELETE)));
        admin().incrementalAlterConfigs(Map.of(resource(arguments), changes)).all().get();
    }

    private Object describeGroup(Arguments arguments) throws Exception {
        String group = arguments.text("group");
        ConsumerGroupDescription found =
            admin().describeConsumerGroups(List.of(group)).describedGroups().get(group).get();
        List<Object> members = new ArrayList<>();
        for (MemberDescription one : found.members()) {
            members.add(Map.of("client_id", one.clientId(),
                "partitions", Places.listed(one.assignment().topicPartitions())));
        }
        return Map.of("state", found.state().toString(), "members", members);
    }

    private Object groupOffsets(Arguments arguments) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> found =
            admin().listConsumerGroupOffsets(arguments.text("group"))
                .partitionsToOffsetAndMetadata().get();
        List<Object> offsets = new ArrayList<>();
        found.entrySet().stream()
            .sorted(Map.Entry.comparingByKey(Comparator.comparing(TopicPartition::topic)
                .thenComparingInt(TopicPartition::partition)))
            .forEach(one -> offsets.add(Map.of("topic", one.getKey().topic(),
                "partition", one.getKey().partition(), "offset", one.getValue().offset())));
        return Map.of("offsets", offsets);
    }

    @Override
    protected void closeWithin(AdminClient closed, long ms) {
        closed.close(Duration.ofMillis(ms));
    }
}
