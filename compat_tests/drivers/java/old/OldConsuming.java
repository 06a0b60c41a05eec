import java.lang.reflect.Array;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * A consumer of 0.9 to 1.1.
 *
 * Methods that take several partitions or topics are called by their names: in 0.9 their arguments
 * are of other types than later.
 */
final class OldConsuming extends Consuming {
    OldConsuming(String bootstrap) {
        super(bootstrap);
    }

    @Override
    public List<String> features() {
        List<String> can = new ArrayList<>(List.of("consume", "group", "pattern", "range",
            "roundrobin", "seek", "pause", "reset", "reset_none", "commit_metadata",
            "new_partitions"));
        if (Library.hasClass("consumer.StickyAssignor")) {
            can.add("sticky");
        }
        if (Library.hasField(ConsumerConfig.class, "ISOLATION_LEVEL_CONFIG")) {
            can.add("isolation");
        }
        if (Library.hasMethod(KafkaConsumer.class, "offsetsForTimes")) {
            can.add("offsets_for_times");
            can.add("small_fetches"); // KIP-74 came with the same release
        }
        if (Library.hasMethod(KafkaConsumer.class, "endOffsets")) {
            can.add("ends");
        }
        return can;
    }

    @Override
    protected ConsumerRecords<byte[], byte[]> poll(long ms) {
        return opened().poll(ms);
    }

    @Override
    protected Map<TopicPartition, OffsetAndMetadata> committed(List<TopicPartition> of) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        for (TopicPartition one : of) {
            found.put(one, opened().committed(one));
        }
        return found;
    }

    @Override
    protected void assign(List<TopicPartition> partitions) {
        call("assign", partitions);
    }

    @Override
    protected void subscribe(List<String> topics, ConsumerRebalanceListener listener) {
        call("subscribe", topics, listener);
    }

    @Override
    protected void seekToBeginning(TopicPartition partition) {
        call("seekToBeginning", List.of(partition));
    }

    @Override
    protected void seekToEnd(TopicPartition partition) {
        call("seekToEnd", List.of(partition));
    }

    @Override
    protected void pause(List<TopicPartition> partitions) {
        call("pause", partitions);
    }

    @Override
    protected void resume(List<TopicPartition> partitions) {
        call("resume", partitions);
    }

    private void call(String name, List<?> several, Object... more) {
        for (Method one : KafkaConsumer.class.getMethods()) {
            Class<?>[] types = one.getParameterTypes();
            if (!one.getName().equals(name) || types.length != 1 + more.length) {
                continue;
            }
            if (types[0].isArray() || types[0].isAssignableFrom(List.class)) {
                List<Object> arguments = new ArrayList<>();
                arguments.add(types[0].isArray() ? array(types[0], several) : several);
                arguments.addAll(List.of(more));
                call(one, arguments.toArray());
                return;
            }
        }
        throw new IllegalStateException("no method " + name);
    }

    private static Object array(Class<?> type, List<?> elements) {
        Object[] empty = (Object[]) Array.newInstance(type.getComponentType(), 0);
        return elements.toArray(empty);
    }

    private void call(Method method, Object[] arguments) {
        try {
            method.invoke(opened(), arguments);
        } catch (InvocationTargetException thrown) {
            throw (RuntimeException) thrown.getCause();
        } catch (IllegalAccessException changed) {
            throw new IllegalStateException(changed);
        }
    }

    /** In 0.9 it takes as long as it takes. */
    @Override
    protected void closeWithin(KafkaConsumer<byte[], byte[]> closed, long ms) {
        boolean isTimed = Library.hasMethod(KafkaConsumer.class, "endOffsets"); // of 0.10.1, both
        if (isTimed) {
            closed.close(ms, TimeUnit.MILLISECONDS);
        } else {
            closed.close();
        }
    }
}
