import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Partitions and offsets in requests and responses. */
final class Places {
    private Places() {
    }

    static TopicPartition partition(Arguments one) {
        return new TopicPartition(one.text("topic"), (int) one.number("partition"));
    }

    static List<TopicPartition> partitions(Arguments arguments) {
        return arguments.objects("partitions").stream().map(Places::partition).toList();
    }

    static Map<TopicPartition, OffsetAndMetadata> offsets(Arguments arguments) {
        Map<TopicPartition, OffsetAndMetadata> found = new LinkedHashMap<>();
        for (Arguments one : arguments.objects("offsets")) {
            found.put(partition(one), new OffsetAndMetadata(
                one.number("offset"), one.text("metadata", "")));
        }
        return found;
    }

    static List<Map<String, Object>> listed(Collection<TopicPartition> partitions) {
        return partitions.stream()
            .sorted(Comparator.comparing(TopicPartition::topic)
                .thenComparingInt(TopicPartition::partition))
            .map(one -> Map.<String, Object>of(
                "topic", one.topic(), "partition", one.partition()))
            .toList();
    }
}
