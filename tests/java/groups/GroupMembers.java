import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.FileDescriptor;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import java.util.StringJoiner;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * Consumers in groups, each in a thread, at the word of standard input. What it reads and reports
 * is described in tests/support/groups/programs/reporting.py.
 *
 * It runs with the clients of 0.9 too: what has another type there is called by its name.
 */
public final class GroupMembers {
    private static final long POLL_MS = 100;
    private static final FileOutputStream OUT = new FileOutputStream(FileDescriptor.out);

    public static void main(String[] args) throws Exception {
        Map<String, Member> members = new HashMap<>();
        BufferedReader lines = new BufferedReader(
            new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("join")) {
                Member member = new Member(args, words[1], words[2]);
                members.put(words[1], member);
                member.start();
            } else if (words[0].equals("leave")) {
                members.get(words[1]).leaving = true;
            } else {
                members.get(words[1]).seek(words[2], Long.parseLong(words[3]));
            }
        }
        for (Member member : members.values()) {
            member.leaving = true;
        }
        for (Member member : members.values()) {
            member.join();
        }
    }

    private static final class Member extends Thread implements ConsumerRebalanceListener {
        private final String[] args;
        private final String group;
        private final Map<TopicPartition, OffsetAndMetadata> uncommitted = new HashMap<>();
        private final Queue<Runnable> seeks = new ArrayDeque<>();
        private KafkaConsumer<byte[], byte[]> consumer;
        volatile boolean leaving;

        Member(String[] args, String name, String group) {
            super(name);
            this.args = args;
            this.group = group;
            setDaemon(true);
        }

        void seek(String place, long offset) {
            int slash = place.lastIndexOf('/');
            TopicPartition partition = new TopicPartition(
                place.substring(0, slash), Integer.parseInt(place.substring(slash + 1)));
            synchronized (seeks) {
                seeks.add(() -> {
                    uncommitted.remove(partition);
                    consumer.seek(partition, offset);
                });
            }
        }

        @Override
        public void run() {
            try {
                consumer = new KafkaConsumer<>(settings());
                subscribe();
                report("joining", "");
                while (!leaving) {
                    synchronized (seeks) {
                        while (!seeks.isEmpty()) {
                            seeks.remove().run();
                        }
                    }
                    process(poll());
                    commit();
                }
                consumer.close();
                report("left", "");
            } catch (Throwable error) {
                report("failed", ",\"why\":" + text(String.valueOf(error)));
                error.printStackTrace();
            }
        }

        private Properties settings() {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", args[0]);
            settings.put("group.id", group);
            settings.put("client.id", getName());
            settings.put("enable.auto.commit", "false");
            settings.put("auto.offset.reset", "earliest");
            String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
            settings.put("key.deserializer", bytes);
            settings.put("value.deserializer", bytes);
            for (int i = 2; i < args.length; i++) {
                String[] parts = args[i].split("=", 2);
                settings.put(parts[0], parts[1]);
            }
            return settings;
        }

        /** By a regular expression: the broker's where the group's protocol has that. */
        private void subscribe() throws Exception {
            String topic = args[1];
            if (!topic.startsWith("^")) {
                call("subscribe", List.of(topic));
            } else if ("consumer".equals(settings().get("group.protocol"))) {
                call("subscribe", Class.forName(
                    "org.apache.kafka.clients.consumer.SubscriptionPattern")
                    .getConstructor(String.class).newInstance(topic));
            } else {
                call("subscribe", Pattern.compile(topic));
            }
        }

        private void call(String name, Object first) throws Exception {
            for (Method method : KafkaConsumer.class.getMethods()) {
                Class<?>[] takes = method.getParameterTypes();
                if (method.getName().equals(name) && takes.length == 2
                        && takes[0].isInstance(first)) {
                    method.invoke(consumer, first, this);
                    return;
                }
            }
            throw new IllegalStateException("no " + name + " of " + first.getClass());
        }

        @SuppressWarnings("unchecked")
        private ConsumerRecords<byte[], byte[]> poll() throws Throwable {
            try {
                Object found;
                try {
                    found = KafkaConsumer.class.getMethod("poll", Duration.class)
                        .invoke(consumer, Duration.ofMillis(POLL_MS));
                } catch (NoSuchMethodException before_2_0) {
                    found = KafkaConsumer.class.getMethod("poll", long.class)
                        .invoke(consumer, POLL_MS);
                }
                return (ConsumerRecords<byte[], byte[]>) found;
            } catch (InvocationTargetException thrown) {
                throw thrown.getCause();
            }
        }

        private void process(ConsumerRecords<byte[], byte[]> records) {
            StringJoiner fields = new StringJoiner(",", ",\"r\":[", "]");
            for (TopicPartition partition : records.partitions()) {
                long first = -1;
                long last = -1;
                for (ConsumerRecord<byte[], byte[]> record : records.records(partition)) {
                    if (first >= 0 && record.offset() != last + 1) {
                        fields.add(range(partition, first, last));
                        first = -1;
                    }
                    first = first < 0 ? record.offset() : first;
                    last = record.offset();
                }
                fields.add(range(partition, first, last));
                uncommitted.put(partition, new OffsetAndMetadata(last + 1));
            }
            if (!records.isEmpty()) {
                report("read", fields.toString());
            }
        }

        private void commit() {
            if (uncommitted.isEmpty()) {
                return;
            }
            try {
                consumer.commitSync(new HashMap<>(uncommitted));
            } catch (KafkaException error) {
                report("refused", ",\"why\":" + text(String.valueOf(error)));
                return;
            }
            StringJoiner fields = new StringJoiner(",", ",\"o\":{", "}");
            uncommitted.forEach((at, one) -> fields.add(place(at) + ":" + one.offset()));
            uncommitted.clear();
            report("committed", fields.toString());
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            report("assigned", places(partitions));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            uncommitted.keySet().removeAll(partitions);
            report("revoked", places(partitions));
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            uncommitted.keySet().removeAll(partitions);
            report("lost", places(partitions));
        }

        private void report(String what, String more) {
            String line = "{\"t\":" + System.currentTimeMillis() + ",\"m\":" + text(getName())
                + ",\"e\":\"" + what + "\"" + more + "}\n";
            synchronized (OUT) {
                try {
                    OUT.write(line.getBytes(StandardCharsets.UTF_8));
                } catch (java.io.IOException pipeIsClosed) {
                    throw new IllegalStateException(pipeIsClosed);
                }
            }
        }
    }

    private static String places(Collection<TopicPartition> partitions) {
        List<String> fields = new ArrayList<>();
        partitions.forEach(one -> fields.add(place(one)));
        return ",\"p\":[" + String.join(",", fields) + "]";
    }

    private static String range(TopicPartition partition, long first, long last) {
        return "[" + place(partition) + "," + first + "," + last + "]";
    }

    private static String place(TopicPartition partition) {
        return text(partition.topic() + "/" + partition.partition());
    }

    private static String text(String plain) {
        StringBuilder out = new StringBuilder("\"");
        for (char one : plain.toCharArray()) {
            if (one == '"' || one == '\\') {
                out.append('\\').append(one);
            } else {
                out.append(one < ' ' ? ' ' : one);
            }
        }
        return out.append('"').toString();
    }
}
