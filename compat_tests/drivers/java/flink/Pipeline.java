import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.Optional;
import java.util.Properties;
import java.util.stream.Stream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExternalizedCheckpointRetention;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.KafkaSourceBuilder;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** A job from topic to topic, exactly once: each checkpoint commits a transaction of every task. */
final class Pipeline {
    private static final int TASKS = 2;

    /** It restarts as long as its broker is away. */
    private static final int RESTARTS = 1_000;

    private static final MemorySize SMALL = MemorySize.ofMebiBytes(16);

    /** Flink's own default is an hour, more than brokers allow by default. */
    private static final String TRANSACTION_TIMEOUT_MS = "60000";

    private Pipeline() {
    }

    static JobClient started(String bootstrap, Arguments arguments) throws Exception {
        Configuration settings = settings();
        keepCheckpoints(settings, Path.of(arguments.text("checkpoints")));
        StreamExecutionEnvironment environment =
            StreamExecutionEnvironment.createLocalEnvironment(TASKS, settings);
        environment.enableCheckpointing(arguments.number("checkpoint_ms"));
        environment
            .fromSource(source(bootstrap, arguments), WatermarkStrategy.noWatermarks(), "source")
            .map(new Squares())
            .sinkTo(sink(bootstrap, arguments));
        return environment.executeAsync("squares");
    }

    private static Configuration settings() {
        Configuration settings = new Configuration();
        settings.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        settings.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, RESTARTS);
        settings.set(
            RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofMillis(200));
        settings.set(TaskManagerOptions.MANAGED_MEMORY_SIZE, SMALL);
        settings.set(TaskManagerOptions.NETWORK_MEMORY_MIN, SMALL);
        settings.set(TaskManagerOptions.NETWORK_MEMORY_MAX, SMALL);
        return settings;
    }

    /** They stay when the job ends, and a later one goes on from the last of them. */
    private static void keepCheckpoints(Configuration settings, Path directory)
            throws IOException {
        settings.set(CheckpointingOptions.CHECKPOINT_STORAGE, "filesystem");
        settings.set(
            CheckpointingOptions.CHECKPOINTS_DIRECTORY, directory.toUri().toString());
        settings.set(CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION,
            ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION);
        latestIn(directory).ifPresent(one ->
            settings.set(StateRecoveryOptions.SAVEPOINT_PATH, one.toUri().toString()));
    }

    /** The directory of the last checkpoint: one that is complete has its metadata there. */
    private static Optional<Path> latestIn(Path directory) throws IOException {
        try (Stream<Path> files = Files.walk(directory)) {
            return files
                .filter(one -> one.getFileName().toString().equals("_metadata"))
                .max(Comparator.comparingLong(one -> one.toFile().lastModified()))
                .map(Path::getParent);
        }
    }

    /** It commits offsets to its group with each checkpoint, for others to see. */
    private static KafkaSource<String> source(String bootstrap, Arguments arguments) {
        KafkaSourceBuilder<String> builder = KafkaSource.<String>builder()
            .setProperties(properties(bootstrap))
            .setTopics(arguments.text("input"))
            .setGroupId(arguments.text("group"))
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setValueOnlyDeserializer(new SimpleStringSchema());
        if (arguments.text("until").equals("latest")) {
            builder.setBounded(OffsetsInitializer.latest());
        }
        return builder.build();
    }

    private static KafkaSink<String> sink(String bootstrap, Arguments arguments) {
        return KafkaSink.<String>builder()
            .setBootstrapServers(bootstrap)
            .setKafkaProducerConfig(properties(bootstrap))
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix(arguments.text("transactional_id_prefix"))
            .setTransactionNamingStrategy(
                TransactionNamingStrategy.valueOf(arguments.text("naming")))
            .setProperty("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
            .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
                .setTopic(arguments.text("output"))
                .setKeySerializationSchema(
                    line -> line.split(",")[0].getBytes(StandardCharsets.UTF_8))
                .setValueSerializationSchema(new SimpleStringSchema())
                .build())
            .build();
    }

    private static Properties properties(String bootstrap) {
        Properties found = new Properties();
        found.putAll(Brokers.settings(bootstrap));
        return found;
    }
}
