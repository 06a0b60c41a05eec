import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;

/** Records that the library has handed out and the suite has not asked for yet. */
final class Inbox {
    private record Kept(TopicPartition partition, long offset, Map<String, Object> content) {
    }

    private final Collection<Kept> kept = new ArrayDeque<>();
    private final Set<TopicPartition> paused = new HashSet<>();

    /** Keep one record, with what the response says of it beside its place. */
    void add(TopicPartition partition, long offset, Map<String, Object> content) {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("topic", partition.topic());
        all.put("partition", partition.partition());
        all.put("offset", offset);
        all.putAll(content);
        kept.add(new Kept(partition, offset, all));
    }

    boolean isEmpty() {
        return kept.isEmpty();
    }

    /** How many records of partitions that are not paused there are. */
    long ready() {
        return kept.stream().filter(one -> !paused.contains(one.partition())).count();
    }

    /** Take the oldest of them, `count` at most. */
    List<Map<String, Object>> take(long count) {
        List<Map<String, Object>> taken = new ArrayList<>();
        Iterator<Kept> all = kept.iterator();
        while (taken.size() < count && all.hasNext()) {
            Kept one = all.next();
            if (!paused.contains(one.partition())) {
                taken.add(one.content());
                all.remove();
            }
        }
        return taken;
    }

    /** Where a partition's reader is, if records of it are kept: the library is ahead of it. */
    OptionalLong position(TopicPartition partition) {
        return kept.stream().filter(one -> one.partition().equals(partition))
            .mapToLong(Kept::offset).findFirst();
    }

    void pause(Collection<TopicPartition> partitions) {
        paused.addAll(partitions);
    }

    void resume(Collection<TopicPartition> partitions) {
        paused.removeAll(partitions);
    }

    /** Drop the records of a partition: its reader is to go on elsewhere. */
    void drop(TopicPartition partition) {
        kept.removeIf(one -> one.partition().equals(partition));
    }

    /** Forget partitions that are no longer read, as the library does. */
    void forget(Collection<TopicPartition> partitions) {
        partitions.forEach(this::drop);
        paused.removeAll(partitions);
    }

    void forgetAll() {
        kept.clear();
        paused.clear();
    }
}
