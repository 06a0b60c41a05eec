import java.lang.reflect.InvocationTargetException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** A consumer of 2.8 to 4. */
final class ModernConsuming extends Consuming {
    private static final String SUBSCRIPTION_PATTERN = "consumer.SubscriptionPattern";

    private String ownGroup;
    private boolean isOfConsumerProtocol;

    ModernConsuming(String bootstrap) {
        super(bootstrap);
    }

    @Override
    public List<String> features() {
        List<String> can = new ArrayList<>(List.of("consume", "group", "pattern", "range",
            "roundrobin", "sticky", "cooperative", "static_members", "isolation", "seek", "pause",
            "reset", "reset_none", "small_fetches", "offsets_for_times", "ends", "commit_metadata",
            "new_partitions"));
        if (Library.hasField(ConsumerConfig.class, "GROUP_PROTOCOL_CONFIG")) {
            can.add("consumer_protocol");
        }
        return can;
    }

    /** What a producer says of this consumer's membership when it sends offsets for it. */
    ConsumerGroupMetadata metadata(String group) {
        boolean isOwn = isOpen() && group.equals(ownGroup);
        return isOwn ? opened().groupMetadata() : new ConsumerGroupMetadata(group);
    }

    @Override
    protected Map<String, Object> settings(Arguments arguments) {
        Map<String, Object> settings = super.settings(arguments);
        ownGroup = arguments.text("group", null);
        isOfConsumerProtocol = arguments.text("protocol", "classic").equals("consumer");
        if (arguments.has("protocol")) {
            settings.put("group.protocol", arguments.text("protocol"));
        }
        if (isOfConsumerProtocol && arguments.has("assignor")) {
            settings.remove("partition.assignment.strategy");
            settings.put("group.remote.assignor", arguments.text("assignor"));
        }
        return settings;
    }

    /** In the consumer protocol it is the broker's to match topics, where the library has that. */
    @Override
    protected void subscribe(String pattern, ConsumerRebalanceListener listener) {
        if (isOfConsumerProtocol && Library.hasClass(SUBSCRIPTION_PATTERN)) {
            subscribeAtBroker(pattern, listener);
        } else {
            super.subscribe(pattern, listener);
        }
    }

    private void subscribeAtBroker(String pattern, ConsumerRebalanceListener listener) {
        try {
            Class<?> type = Class.forName(Library.CLIENTS + SUBSCRIPTION_PATTERN);
            KafkaConsumer.class.getMethod("subscribe", type, ConsumerRebalanceListener.class)
                .invoke(opened(), type.getConstructor(String.class).newInstance(pattern), listener);
        } catch (InvocationTargetException thrown) {
            throw (RuntimeException) thrown.getCause();
        } catch (ReflectiveOperationException changed) {
            throw new IllegalStateException(changed);
        }
    }

    @Override
    protected ConsumerRecords<byte[], byte[]> poll(long ms) {
        return opened().poll(Duration.ofMillis(ms));
    }

    @Override
    protected Map<TopicPartition, OffsetAndMetadata> committed(List<TopicPartition> of) {
        return opened().committed(new HashSet<>(of));
    }

    @Override
    protected void closeWithin(KafkaConsumer<byte[], byte[]> closed, long ms) {
        closed.close(Duration.ofMillis(ms));
    }
}
