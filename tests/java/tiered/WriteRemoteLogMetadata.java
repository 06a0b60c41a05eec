import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogSegmentMetadataSnapshot;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteMetadata;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteState;

/**
 * A segment of __remote_log_metadata with records of all types, states and optional parts, written
 * with Apache Kafka's own classes, and a tombstone.
 *
 * Argument: the segment's file.
 */
public final class WriteRemoteLogMetadata {
    private static final List<Optional<CustomMetadata>> CUSTOM = List.of(
        Optional.empty(),
        Optional.of(new CustomMetadata(new byte[0])),
        Optional.of(new CustomMetadata(new byte[] {1, 2, 3})));
    private static final List<Map<Integer, Long>> EPOCHS = List.of(
        Map.of(0, 0L),
        Map.of(7, 1L << 40, -1, -5L, 3, 9L, 2, 8L),
        Map.of(Integer.MAX_VALUE, Long.MAX_VALUE));
    private static final List<String> TOPICS = List.of("orders", "a-b.c_d", "größe 😀", "");

    public static void main(String[] arguments) throws IOException {
        RemoteLogMetadataSerde serde = new RemoteLogMetadataSerde();
        List<byte[]> values = new ArrayList<>();
        for (RemoteLogMetadata one : all()) {
            values.add(serde.serialize(one));
        }
        values.add(null);
        try (FileRecords file = FileRecords.open(new File(arguments[0]))) {
            long offset = 0;
            for (byte[] value : values) {
                SimpleRecord record = new SimpleRecord(1_700_000_000_000L + offset, null, value);
                file.append(MemoryRecords.withRecords(offset++, Compression.NONE, record));
            }
        }
    }

    private static List<RemoteLogMetadata> all() {
        List<RemoteLogMetadata> found = new ArrayList<>();
        long number = 0;
        for (String topic : TOPICS) {
            TopicIdPartition partition =
                new TopicIdPartition(new Uuid(number, -number), new TopicPartition(topic, (int) number));
            for (RemotePartitionDeleteState state : RemotePartitionDeleteState.values()) {
                found.add(new RemotePartitionDeleteMetadata(partition, state, number++, 4));
            }
            for (RemoteLogSegmentState state : RemoteLogSegmentState.values()) {
                for (Optional<CustomMetadata> custom : CUSTOM) {
                    Uuid id = new Uuid(~number, number << 50);
                    RemoteLogSegmentMetadata segment = segment(partition, id, custom, state, number++);
                    found.add(segment);
                    found.add(RemoteLogSegmentMetadataSnapshot.create(segment));
                    found.add(new RemoteLogSegmentMetadataUpdate(
                        segment.remoteLogSegmentId(), number, custom, state, (int) -number));
                }
            }
        }
        return found;
    }

    private static RemoteLogSegmentMetadata segment(
        TopicIdPartition partition,
        Uuid id,
        Optional<CustomMetadata> custom,
        RemoteLogSegmentState state,
        long number
    ) {
        return new RemoteLogSegmentMetadata(
            new RemoteLogSegmentId(partition, id), number, number * number, -number, (int) number,
            number << 33, (int) number * 1000, custom, state,
            EPOCHS.get((int) (number % EPOCHS.size())), number % 2 == 0);
    }
}
