package org.apache.spark.sql.kafka010;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupsResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.serialization.StringSerializer;
import scala.Function1;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/**
 * Stands before the class of this name in the tests of Spark's Kafka connector: they run on a
 * broker that is there already, at the address in the system property `outside.broker`, instead of
 * one in the same JVM. It uses clients alone. What only a broker of the same JVM can do is missing:
 * its settings, its clean-up at a given moment, ZooKeeper, and a Kerberos server beside it.
 */
public class KafkaTestUtils {
    private static final long WITHIN_MS = 60_000;
    private static final long POLL_MS = 20;

    /** The same that the class uses which this one stands before. */
    private static final String PARTITIONER =
            "org.apache.kafka.clients.producer.internals.DefaultPartitioner";

    private final String bootstrap = System.getProperty("outside.broker");
    private Admin admin;
    private KafkaProducer<String, String> producer;

    /** What some suites want, and get (see tests/spark/test_connector_suites.py). */
    private static final Map<String, Object> GIVEN = Map.of("auto.create.topics.enable", "false");

    public KafkaTestUtils(
            scala.collection.immutable.Map<String, Object> brokerSettings, boolean secure) {
        if (bootstrap == null) throw new IllegalStateException("outside.broker is not set");
        if (secure) throw new UnsupportedOperationException("a secure broker");
        Map<String, Object> asked = CollectionConverters.asJava(brokerSettings);
        if (!GIVEN.entrySet().containsAll(asked.entrySet())) {
            throw new UnsupportedOperationException("a broker with settings of its own: " + asked);
        }
    }

    public String brokerAddress() {
        return bootstrap;
    }

    /** Each suite finds the broker without topics, as if it were its own. */
    public void setup() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        admin = Admin.create(properties);
        producer = new KafkaProducer<>(producerSettings());
        deleteAllTopics();
    }

    public void teardown() {
        if (producer != null) producer.close();
        if (admin != null) {
            deleteAllTopics();
            admin.close();
        }
        producer = null;
        admin = null;
    }

    private void deleteAllTopics() {
        for (String topic : topics()) {
            deleteTopic(topic);
        }
    }

    private Collection<String> topics() {
        return get(() -> admin.listTopics().names().get());
    }

    /** A topic that is there already stays as it is, unless it is to be overwritten. */
    public void createTopic(String topic, int partitions, boolean overwrite) {
        if (overwrite && topics().contains(topic)) {
            deleteTopic(topic);
        }
        NewTopic wanted = new NewTopic(topic, partitions, (short) 1);
        try {
            get(() -> admin.createTopics(List.of(wanted)).all().get());
        } catch (TopicExistsException failure) {
            // suites create some topics in each of their tests, and delete none
        }
        waitForPartitions(topic, partitions);
    }

    public void createTopic(String topic) {
        createTopic(topic, 1, false);
    }

    public boolean createTopic$default$3() {
        return false;
    }

    public void deleteTopic(String topic) {
        get(() -> admin.deleteTopics(List.of(topic)).all().get());
        waitFor(topic + " is gone", () -> !topics().contains(topic));
    }

    public void addPartitions(String topic, int partitions) {
        Map<String, NewPartitions> wanted = Map.of(topic, NewPartitions.increaseTo(partitions));
        get(() -> admin.createPartitions(wanted).all().get());
        waitForPartitions(topic, partitions);
    }

    private void waitForPartitions(String topic, int partitions) {
        waitFor(topic + " has leaders", () -> {
            List<TopicPartitionInfo> found = describe(topic).partitions();
            return found.size() == partitions
                    && found.stream().allMatch(one -> one.leader() != null);
        });
    }

    private TopicDescription describe(String topic) {
        return get(() -> admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic));
    }

    public Seq<Tuple2<String, Object>> getAllTopicsAndPartitionSize() {
        List<Tuple2<String, Object>> found = new ArrayList<>();
        for (String topic : topics()) {
            found.add(new Tuple2<>(topic, describe(topic).partitions().size()));
        }
        return inScala(found);
    }

    public Seq<Tuple2<String, RecordMetadata>> sendMessages(String topic, String[] messages) {
        return sendMessages(topic, messages, Option.empty());
    }

    public Seq<Tuple2<String, RecordMetadata>> sendMessages(
            String topic, String[] messages, Option<Object> partition) {
        Integer number = partition.isDefined() ? (Integer) partition.get() : null;
        List<ProducerRecord<String, String>> records = new ArrayList<>();
        for (String message : messages) {
            records.add(new ProducerRecord<>(topic, number, null, message));
        }
        return send(records);
    }

    public Seq<Tuple2<String, RecordMetadata>> sendMessage(ProducerRecord<String, String> record) {
        return send(List.of(record));
    }

    public Seq<Tuple2<String, RecordMetadata>> sendMessages(
            Seq<ProducerRecord<String, String>> records) {
        return send(CollectionConverters.asJava(records));
    }

    public Seq<Tuple2<String, RecordMetadata>> sendMessages(
            ProducerRecord<String, String>[] records) {
        return send(Arrays.asList(records));
    }

    private Seq<Tuple2<String, RecordMetadata>> send(List<ProducerRecord<String, String>> records) {
        List<Tuple2<String, RecordMetadata>> sent = new ArrayList<>();
        for (ProducerRecord<String, String> record : records) {
            var written = producer.send(record);
            var metadata = get(() -> written.get(WITHIN_MS, TimeUnit.MILLISECONDS));
            sent.add(new Tuple2<>(record.value(), metadata));
        }
        return inScala(sent);
    }

    public scala.collection.immutable.Map<TopicPartition, Object> getEarliestOffsets(
            scala.collection.immutable.Set<String> topics) {
        return offsets(topics, OffsetSpec.earliest());
    }

    public scala.collection.immutable.Map<TopicPartition, Object> getLatestOffsets(
            scala.collection.immutable.Set<String> topics) {
        return offsets(topics, OffsetSpec.latest());
    }

    private scala.collection.immutable.Map<TopicPartition, Object> offsets(
            scala.collection.immutable.Set<String> topics, OffsetSpec which) {
        Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
        for (String topic : CollectionConverters.asJava(topics)) {
            for (TopicPartitionInfo one : describe(topic).partitions()) {
                asked.put(new TopicPartition(topic, one.partition()), which);
            }
        }
        Map<TopicPartition, Object> found = new HashMap<>();
        get(() -> admin.listOffsets(asked).all().get())
                .forEach((partition, result) -> found.put(partition, result.offset()));
        return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(found));
    }

    public void waitUntilOffsetAppears(TopicPartition partition, long offset) {
        waitFor(partition + " reaches " + offset, () -> {
            var asked = Map.of(partition, OffsetSpec.latest());
            return admin.listOffsets(asked).all().get().get(partition).offset() >= offset;
        });
    }

    public ListConsumerGroupsResult listConsumerGroups() {
        return admin.listConsumerGroups();
    }

    public void withTransactionalProducer(
            Function1<KafkaProducer<String, String>, BoxedUnit> body) {
        Properties properties = producerSettings();
        properties.put("transactional.id", UUID.randomUUID().toString());
        try (KafkaProducer<String, String> transactional = new KafkaProducer<>(properties)) {
            transactional.initTransactions();
            body.apply(transactional);
        }
    }

    private Properties producerSettings() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        properties.put("acks", "all");
        properties.put("partitioner.class", PARTITIONER);
        return properties;
    }

    private static <T> Seq<T> inScala(List<T> list) {
        return scala.collection.immutable.List$.MODULE$.from(CollectionConverters.asScala(list));
    }

    private static <T> T get(Callable<T> call) {
        try {
            return call.call();
        } catch (ExecutionException failure) {
            if (failure.getCause() instanceof RuntimeException cause) throw cause;
            throw new RuntimeException(failure.getCause());
        } catch (RuntimeException failure) {
            throw failure;
        } catch (Exception failure) {
            throw new RuntimeException(failure);
        }
    }

    private static void waitFor(String what, Callable<Boolean> condition) {
        long deadline = System.nanoTime() + WITHIN_MS * 1_000_000;
        while (true) {
            try {
                if (get(condition)) return;
            } catch (RetriableException failure) {
                // such as a topic that is not known yet
            }
            if (System.nanoTime() > deadline) throw new AssertionError("not in time: " + what);
            try {
                Thread.sleep(POLL_MS);
            } catch (InterruptedException interrupted) {
                throw new RuntimeException(interrupted);
            }
        }
    }
}
