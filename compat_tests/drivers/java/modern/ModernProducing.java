import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.TopicPartition;

/** A producer of 2.8 to 4. */
final class ModernProducing extends Producing {
    private final ModernConsuming consuming;

    ModernProducing(String bootstrap, ModernConsuming consuming) {
        super(bootstrap, consuming);
        this.consuming = consuming;
    }

    @Override
    public List<String> features() {
        List<String> can = super.features();
        can.addAll(List.of("zstd", "timeout", "retries")); // the last by default since 2.1
        return can;
    }

    /** The library wants a record's time to hold at least one request after its lingering. */
    @Override
    protected void limitTime(Map<String, Object> settings, Arguments arguments) {
        Map<String, Object> defaults = ProducerConfig.configDef().defaultValues();
        long limit = arguments.number("timeout_ms");
        long lingers = arguments.number(
            "linger_ms", ((Number) defaults.get("linger.ms")).longValue());
        long request = ((Number) defaults.get("request.timeout.ms")).longValue();
        settings.put("delivery.timeout.ms", String.valueOf(limit));
        settings.put("request.timeout.ms", String.valueOf(Math.min(request, limit - lingers)));
        settings.put("max.block.ms", String.valueOf(limit));
    }

    @Override
    protected void sendOffsets(Map<TopicPartition, OffsetAndMetadata> offsets, String group) {
        opened().sendOffsetsToTransaction(offsets, consuming.metadata(group));
    }

    @Override
    protected void closeWithin(KafkaProducer<byte[], byte[]> closed, long ms) {
        closed.close(Duration.ofMillis(ms));
    }
}
