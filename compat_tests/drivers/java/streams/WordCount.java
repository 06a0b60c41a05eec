import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/** An instance of an application that counts the words of lines, exactly once. */
final class WordCount implements Part {
    private static final Map<String, String> SETTINGS = Map.of(
        "application_id", StreamsConfig.APPLICATION_ID_CONFIG,
        "state_dir", StreamsConfig.STATE_DIR_CONFIG,
        "commit_interval_ms", StreamsConfig.COMMIT_INTERVAL_MS_CONFIG,
        "session_timeout_ms", StreamsConfig.consumerPrefix(
            ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG),
        "heartbeat_ms", StreamsConfig.consumerPrefix(
            ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG),
        "transaction_timeout_ms", StreamsConfig.producerPrefix(
            ProducerConfig.TRANSACTION_TIMEOUT_CONFIG));

    private final String bootstrap;
    private final AtomicReference<Throwable> failure = new AtomicReference<>();
    private KafkaStreams streams;

    WordCount(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    @Override
    public void register(Conversation conversation) {
        conversation.follow("start", this::start);
        conversation.answer("state", arguments -> state());
        conversation.follow("stop", arguments -> stop(arguments.number("timeout_ms")));
    }

    @Override
    public void end() {
        if (streams != null) {
            stop(CLOSE_WITHIN_MS);
        }
    }

    private void start(Arguments arguments) {
        Properties settings = new Properties();
        settings.putAll(arguments.settings(SETTINGS));
        settings.putAll(Brokers.settings(bootstrap));
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        // Without a cache every single count is written, so that none can be lost unseen.
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, "0");
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        streams = new KafkaStreams(
            topology(arguments.text("input"), arguments.text("output")), settings);
        streams.setUncaughtExceptionHandler(thrown -> {
            failure.set(thrown);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
    }

    /** The counts are kept in memory, so that an instance restores them from their changelog. */
    private static Topology topology(String input, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(input)
            .flatMapValues(line -> List.of(line.split(" ")))
            .groupBy((key, word) -> word)
            .count(Materialized.as(Stores.inMemoryKeyValueStore("counts")))
            .toStream()
            .mapValues(count -> count.toString())
            .to(output, Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }

    private Object state() throws ExecutionException {
        if (failure.get() != null) {
            throw new ExecutionException(failure.get());
        }
        List<TopicPartition> processed = streams.metadataForLocalThreads().stream()
            .flatMap(thread -> thread.activeTasks().stream())
            .map(task -> task.topicPartitions())
            .flatMap(Collection::stream)
            .toList();
        return Map.of("state", streams.state().name(), "partitions", Places.listed(processed));
    }

    private void stop(long timeoutMs) {
        KafkaStreams last = streams;
        streams = null;
        if (!last.close(Duration.ofMillis(timeoutMs))) {
            throw new IllegalStateException("not stopped within " + timeoutMs + " ms");
        }
    }
}
