import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;

/** A producer of 0.8.2 to 1.1. */
final class OldProducing extends Producing {
    OldProducing(String bootstrap, Consuming consuming) {
        super(bootstrap, consuming);
    }

    /** How long a record may take as a whole can be said from 2.1 on. */
    @Override
    protected void limitTime(Map<String, Object> settings, Arguments arguments) {
        throw new UnsupportedOperationException("this version has no such setting");
    }

    @Override
    protected void sendOffsets(Map<TopicPartition, OffsetAndMetadata> offsets, String group) {
        opened().sendOffsetsToTransaction(offsets, group);
    }

    /** In 0.8.2 it takes as long as it takes. */
    @Override
    protected void closeWithin(KafkaProducer<byte[], byte[]> closed, long ms) {
        boolean isTimed = Library.hasMethod(KafkaProducer.class, "flush"); // both came with 0.9
        if (isTimed) {
            closed.close(ms, TimeUnit.MILLISECONDS);
        } else {
            closed.close();
        }
    }
}
