// Records what Apache Kafka 4.3.1 says about settings, as the judge of our table. Run with its jars:
//
//   java -cp 'libs/*' Record.java settings   > settings.tsv
//   java -cp 'libs/*' Record.java values     > values.tsv
//   java -cp 'libs/*' Record.java properties > properties.tsv
//   java -cp 'libs/*' Record.java starts     > starts.tsv
//
// and with a broker that was formatted and started with plain.properties, then one with
// changed.properties:
//
//   java -cp 'libs/*' Record.java topics   127.0.0.1:19092 > topics.tsv
//   java -cp 'libs/*' Record.java describe 127.0.0.1:19092 > plain.tsv, changed.tsv
//   java -cp 'libs/*' Record.java alter    127.0.0.1:19092, then describe > altered.tsv
//
// settings-3.9.2.tsv: the same of Kafka 3.9.2, for the names that 4 has no more.
// Of changed.tsv and altered.tsv only those lines are kept that the one before has not.
//
// Fields are separated by tabs; \t, \n, \r, \f and \\ stand for themselves, ∅ for null.

import java.io.StringReader;
import java.util.*;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.config.*;
import org.apache.kafka.common.config.ConfigDef.*;

public class Record {
    static void line(Object... fields) {
        System.out.println(Stream.of(fields).map(Record::text).collect(Collectors.joining("\t")));
    }

    static String text(Object field) {
        if (field == null) return "∅";
        StringBuilder out = new StringBuilder();
        for (char c : field.toString().toCharArray()) {
            int i = "\t\n\r\f\\".indexOf(c);
            if (i >= 0) out.append('\\').append("tnrf\\".charAt(i));
            else if (Character.isSurrogate(c)) out.append(String.format("\\u%04x", (int) c));
            else out.append(c);
        }
        return out.toString();
    }

    static void settings(String scope, ConfigDef definitions, Map<String, String> modes) {
        for (ConfigKey k : new TreeMap<>(definitions.configKeys()).values()) {
            Object d = k.defaultValue == ConfigDef.NO_DEFAULT_VALUE ? null : k.defaultValue;
            line(scope, k.name, k.type, ConfigDef.convertToString(d, k.type), k.validator,
                k.importance, k.internalConfig, modes.getOrDefault(k.name, "read-only"));
        }
    }

    static void settings() throws Exception {
        settings("broker", kafka.server.KafkaConfig.configDef(),
            org.apache.kafka.server.config.DynamicBrokerConfig.dynamicConfigUpdateModes());
        var field = org.apache.kafka.storage.internals.log.LogConfig.class.getDeclaredField("CONFIG");
        field.setAccessible(true);
        settings("topic", (ConfigDef) field.get(null), Map.of());
        org.apache.kafka.server.config.ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.forEach(
            (topic, keys) -> line("fallback", topic, keys.stream().map(
                key -> key.name() + "*" + key.converter().apply("1")).collect(Collectors.joining(" "))));
    }

    static final String[][] VALUES = {
        {"BOOLEAN", "true"}, {"BOOLEAN", " TRUE "}, {"BOOLEAN", "yes"}, {"BOOLEAN", ""},
        {"INT", "5"}, {"INT", "+5"}, {"INT", " 7\t"}, {"INT", "-0"}, {"INT", "1_000"}, {"INT", "--1"},
        {"INT", "2147483647"}, {"INT", "2147483648"}, {"INT", "-2147483648"}, {"INT", "-2147483649"},
        {"INT", "0x10"}, {"INT", ""}, {"INT", "٣"}, {"INT", "²"}, {"INT", "1 2"}, {"INT", "+"},
        {"SHORT", "32767"}, {"SHORT", "32768"}, {"SHORT", "-5"},
        {"LONG", "9223372036854775807"}, {"LONG", "9223372036854775808"}, {"LONG", "10L"},
        {"DOUBLE", "0.5"}, {"DOUBLE", "1e3"}, {"DOUBLE", "1E400"}, {"DOUBLE", ".5"}, {"DOUBLE", "5."},
        {"DOUBLE", "1f"}, {"DOUBLE", "1d"}, {"DOUBLE", "1fd"}, {"DOUBLE", "Infinity"},
        {"DOUBLE", "-Infinity"}, {"DOUBLE", "abc"}, {"DOUBLE", "12345678.9"}, {"DOUBLE", "0.0001"},
        {"DOUBLE", "1e7"}, {"DOUBLE", "9999999"}, {"DOUBLE", "1e-3"}, {"DOUBLE", "123456789012345678"},
        {"DOUBLE", "+1.5"}, {"DOUBLE", "-0"}, {"DOUBLE", "inf"}, {"DOUBLE", "nan"}, {"DOUBLE", "1_0.5"},
        {"DOUBLE", "-1.7976931348623157E308"}, {"DOUBLE", "4.5e-300"}, {"DOUBLE", "."}, {"DOUBLE", ""},
        {"LIST", "a,b"}, {"LIST", " a , b "}, {"LIST", ""}, {"LIST", " "}, {"LIST", "a,,b"},
        {"LIST", "a,"}, {"LIST", ",a"}, {"LIST", ","}, {"LIST", "a b ,\tc"},
        {"STRING", " x y "}, {"STRING", ""}, {"CLASS", "java.lang.String"},
    };

    static void values() {
        for (String[] one : VALUES) {
            ConfigDef.Type type = ConfigDef.Type.valueOf(one[0]);
            try {
                Object value = ConfigDef.parseType("key", one[1], type);
                line(one[0], one[1], "ok", ConfigDef.convertToString(value, type));
            } catch (ConfigException e) {
                line(one[0], one[1], "refused", e.getMessage());
            }
        }
    }

    static final String[] PROPERTIES = {
        "a=1", "a = 1 ", "a:1", "a 1", "a\t1", "a\f1", "  a=1", "a", "a=", "=1", ":", " =", "a==1",
        "a:=1", "a = = 1", "a   =   1", "a b=1", "#a=1", "!a=1", "  # a", "a=#1", "\n\na=1\n\n",
        "a=1\nb=2", "a=1\rb=2", "a=1\r\nb=2", "a=1\n\rb=2", "a=1\\\n2", "a=1\\\n   2", "a=1\\\r\n  2",
        "a=1\\\\\nb=2", "a=1\\\\\\\nb=2", "a=1\\\n#b=2", "#a\\\nb=1", "a=1\\\n\nb=2", "a=1\\\n \nb=2",
        "\\\n#b=1\nc=2", "a\\\nb=1", "a\\=b=1", "a\\:b=1", "a\\ b=1", "\\#a=1", "\\!a=1", "a\\\\=1",
        "a=\\t\\n\\r\\f\\\\", "a=\\q\\'\\\"", "a=\\u0041", "\\u0061=1", "a=\\u00e4\\u4e2d",
        "a=\\ud83d\\ude00", "a=\\u004", "a=\\u00zz", "a=\\u", "a=\\U0041", "a=ä中", "a=1\u000b2",
        "a=1\u20282", "a=1\u00852", "a=1\u001c2", "a=x\\", "a=1\na=2", "a\\\t=1", "a=1 \\\n 2",
        "listeners=A://h:1,\\\n  B://h:2", "dir=C\\:\\\\x", "a\\\r\n\\\r\nb=1",
    };

    static void properties() throws Exception {
        List<String> texts = new ArrayList<>(List.of(PROPERTIES));
        String[] parts = {"a", "b", "=", ":", " ", "\t", "\f", "\\", "\\", "\n", "\n", "\r", "\r\n", "#",
            "!", "\\u0041", "\\\n", "ä", "x=1\n"};
        Random random = new Random(4);
        while (texts.size() < 400) {
            StringBuilder text = new StringBuilder("k");
            for (int i = random.nextInt(14); i >= 0; i--) text.append(parts[random.nextInt(parts.length)]);
            texts.add(text + "\nz=1");  // a backslash never ends the text: see the parser
        }
        for (String text : texts) {
            // Keeps the order and repeated keys, which the hash table does not.
            List<Object> entries = new ArrayList<>(List.of(text));
            Properties reader = new Properties() {
                @Override public synchronized Object put(Object key, Object value) {
                    entries.add(key);
                    return entries.add(value);
                }
            };
            try {
                reader.load(new StringReader(text));
            } catch (IllegalArgumentException e) {
                entries.subList(1, entries.size()).clear();
                entries.add("refused");
            }
            line(entries.toArray());
        }
    }

    static final String[] STARTS = {
        "", "listeners=PLAINTEXT://127.0.0.1:9092", "listeners=plaintext://:9092",
        "listeners=PLAINTEXT://:9092,PLAINTEXT://:9093", "listeners=PLAINTEXT://127.0.0.1:0",
        "listeners=PLAINTEXT://h:1,X://h:1|listener.security.protocol.map=PLAINTEXT:PLAINTEXT,X:PLAINTEXT,C:PLAINTEXT",
        "listeners=PLAINTEXT://h:1,X://h:2|listener.security.protocol.map=PLAINTEXT:PLAINTEXT,X:PLAINTEXT,C:PLAINTEXT",
        "listeners=PLAINTEXT://h:0,X://h:0|listener.security.protocol.map=PLAINTEXT:PLAINTEXT,X:PLAINTEXT,C:PLAINTEXT",
        "listeners=PLAINTEXT://1.2.3.4:1,X://[::1]:1|listener.security.protocol.map=PLAINTEXT:PLAINTEXT,X:PLAINTEXT,C:PLAINTEXT",
        "listeners=PLAINTEXT://1.2.3.4:1,X://1.2.3.5:1|listener.security.protocol.map=PLAINTEXT:PLAINTEXT,X:PLAINTEXT,C:PLAINTEXT",
        "listeners=PLAINTEXT://h:1,X://h:2|advertised.listeners=X://h:2|listener.security.protocol.map=PLAINTEXT:PLAINTEXT,X:PLAINTEXT,C:PLAINTEXT",
        "listeners=PLAINTEXT://h:1,X://h:2|advertised.listeners=X://h:2|inter.broker.listener.name=X|listener.security.protocol.map=PLAINTEXT:PLAINTEXT,X:PLAINTEXT,C:PLAINTEXT",
        "listeners=X://h:9092|listener.security.protocol.map=X:PLAINTEXT,C:PLAINTEXT",
        "listeners=X://h:9092|listener.security.protocol.map=X:PLAINTEXT,C:PLAINTEXT|inter.broker.listener.name=x",
        "listeners=PLAINTEXT://[::1]:9092", "listeners=PLAINTEXT://h_x-y.z:9092", "listeners=foo",
        "listeners=PLAINTEXT:9092", "listeners=PLAINTEXT://h", "listeners=", "listeners=PLAINTEXT://h:9092,",
        "listeners=PLAINTEXT://h h:9092", "listeners=PLAINTEXT://h:x", "listeners=://h:1",
        "listeners=PLAINTEXT://0.0.0.0:9092",
        "listeners=PLAINTEXT://0.0.0.0:9092|advertised.listeners=PLAINTEXT://h:1",
        "advertised.listeners=PLAINTEXT://0.0.0.0:9092", "advertised.listeners=FOO://h:1",
        "advertised.listeners=PLAINTEXT://h:0", "advertised.listeners=PLAINTEXT://:9092",
        "advertised.listeners=", "listener.security.protocol.map=PLAINTEXT:FOO,C:PLAINTEXT",
        "listener.security.protocol.map=PLAINTEXT", "log.dirs=", "log.dirs=a,b", "log.dirs=a,,b",
        "log.dirs=a,a", "log.retention.ms=0", "log.retention.ms=-5", "log.retention.ms=-1",
        "log.retention.hours=0", "log.retention.minutes=-1", "log.retention.minutes=3",
        "log.retention.minutes=3|log.retention.hours=5", "log.roll.hours=0", "log.roll.ms=0",
        "log.roll.ms=1", "log.roll.jitter.ms=-1", "broker.id=2", "broker.id=1", "broker.id=-1",
        "num.partitions=0", "num.partitions=", "num.partitions= 7 ", "message.max.bytes=-1",
        "socket.request.max.bytes=0", "fetch.max.bytes=1000", "log.segment.bytes=1000",
        "min.insync.replicas=0", "unknown.x=1", "log.cleanup.policy=", "log.cleanup.policy=compact,x",
        "compression.type=none", "group.coordinator.rebalance.protocols=classic,x",
        "group.share.delivery.count.limit=11", "offsets.topic.replication.factor=40000",
        "auto.create.topics.enable=no", "transaction.state.log.min.isr=0", "num.io.threads=x",
    };

    static String endpoints(scala.collection.Iterable<org.apache.kafka.common.Endpoint> found) {
        return scala.jdk.javaapi.CollectionConverters.asJavaCollection(found).stream()
            .map(e -> e.listener() + "," + Objects.toString(e.host(), "") + "," + e.port())
            .collect(Collectors.joining(" "));
    }

    static void starts() {
        for (String given : STARTS) {
            Properties p = new Properties();
            p.putAll(Map.of("process.roles", "broker", "node.id", "1", "log.dirs", "d",
                "controller.quorum.bootstrap.servers", "h:1", "controller.listener.names", "C"));
            for (String one : given.split("\\|")) {
                int equals = one.indexOf('=');
                if (equals > 0) p.put(one.substring(0, equals), one.substring(equals + 1));
            }
            try {
                var config = new kafka.server.KafkaConfig(p, false);
                line(given, "ok", endpoints(config.listeners()),
                    endpoints(config.effectiveAdvertisedBrokerListeners()),
                    String.join(" ", config.logDirs()), config.logRetentionTimeMillis());
            } catch (Exception e) {
                line(given, "refused", e.getMessage());
            }
        }
    }

    static final String[] TOPICS = {
        "nope=1", "=", "retention.ms=x", "retention.ms=-2", "retention.ms=", "retention.ms",
        "retention.ms|segment.ms", "retention.ms=60000", "segment.bytes=100", "segment.bytes=3000000000",
        "cleanup.policy=foo", "cleanup.policy=", "cleanup.policy=compact,compact", "cleanup.policy=Compact",
        "cleanup.policy=delete, compact", "cleanup.policy=delete,,compact", "compression.type=foo",
        "compression.type=GZIP", "compression.type=zstd", "compression.gzip.level=0",
        "compression.gzip.level=10", "compression.gzip.level=-1", "compression.lz4.level=18",
        "compression.zstd.level=-131073", "min.cleanable.dirty.ratio=1.5", "min.cleanable.dirty.ratio=-0.1",
        "min.cleanable.dirty.ratio=x", "min.cleanable.dirty.ratio=.25", "message.timestamp.type=foo",
        "preallocate=maybe", "preallocate=True", "remote.log.copy.disable=true",
        "remote.log.delete.on.disable=true", "leader.replication.throttled.replicas=x",
        "leader.replication.throttled.replicas=0:1,1:2", "leader.replication.throttled.replicas=*,*",
        "leader.replication.throttled.replicas=*", "leader.replication.throttled.replicas=",
        "leader.replication.throttled.replicas=none", "follower.replication.throttled.replicas=0:-1",
        "leader.replication.throttled.replicas= 0:1 , 1:2 ", "min.insync.replicas=0",
        "min.insync.replicas=2", "internal.segment.bytes=100", "message.format.version=2.8",
        "message.downconversion.enable=true", "segment.ms=0", "local.retention.ms=-3",
        "local.retention.ms=99999999999", "flush.messages=0", "flush.ms=-1", "max.compaction.lag.ms=0",
        "retention.bytes=-5", "max.message.bytes=-1", "index.interval.bytes=+10", "segment.index.bytes=3",
        "message.timestamp.after.max.ms=-1", "segment.jitter.ms=99999999999999999999",
        "min.compaction.lag.ms=100|max.compaction.lag.ms=50", "nope=1|retention.ms=x",
        "file.delete.delay.ms=-1", "delete.retention.ms=-1", "unclean.leader.election.enable=1",
    };

    static void topics(Admin admin) throws Exception {
        for (int i = 0; i < TOPICS.length; i++) {
            Map<String, String> configs = new TreeMap<>();
            for (String one : TOPICS[i].split("\\|", -1)) {
                int equals = one.indexOf('=');
                configs.put(equals < 0 ? one : one.substring(0, equals), equals < 0 ? null : one.substring(equals + 1));
            }
            var topic = new NewTopic("topic-" + i, 1, (short) 1).configs(configs);
            try {
                admin.createTopics(List.of(topic), new CreateTopicsOptions().validateOnly(true)).all().get();
                line(TOPICS[i], "ok");
            } catch (java.util.concurrent.ExecutionException e) {
                line(TOPICS[i], e.getCause().getClass().getSimpleName(), e.getCause().getMessage());
            }
        }
    }

    static final ConfigResource BROKER = new ConfigResource(ConfigResource.Type.BROKER, "1");
    static final ConfigResource DEFAULTS = new ConfigResource(ConfigResource.Type.BROKER, "");

    static void describe(Admin admin) throws Exception {
        var set = Map.of("retention.ms", "60000", "cleanup.policy", "compact,delete", "segment.bytes",
            "2000000", "min.insync.replicas", "1", "leader.replication.throttled.replicas", "*");
        if (!admin.listTopics().names().get().contains("plain")) {
            admin.createTopics(List.of(new NewTopic("plain", 1, (short) 1),
                new NewTopic("set", 1, (short) 1).configs(set))).all().get();
            Thread.sleep(1000);
        }
        var resources = List.of(new ConfigResource(ConfigResource.Type.TOPIC, "plain"),
            new ConfigResource(ConfigResource.Type.TOPIC, "set"), BROKER, DEFAULTS);
        var answer = admin.describeConfigs(resources, new DescribeConfigsOptions().includeSynonyms(true)).all().get();
        for (ConfigResource resource : resources) {
            var entries = new TreeMap<String, ConfigEntry>();
            answer.get(resource).entries().forEach(entry -> entries.put(entry.name(), entry));
            for (ConfigEntry e : entries.values()) {
                var fields = new ArrayList<Object>(Arrays.asList(resource.type() + ":" + resource.name(),
                    e.name(), e.value(), e.source(), e.isReadOnly(), e.isSensitive(), e.type()));
                for (var s : e.synonyms()) fields.addAll(Arrays.asList(s.source(), s.name(), s.value()));
                line(fields.toArray());
            }
        }
    }

    static void alter(Admin admin, ConfigResource resource, String... pairs) throws Exception {
        List<AlterConfigOp> operations = new ArrayList<>();
        for (int i = 0; i < pairs.length; i += 2)
            operations.add(new AlterConfigOp(new ConfigEntry(pairs[i], pairs[i + 1]), AlterConfigOp.OpType.SET));
        admin.incrementalAlterConfigs(Map.of(resource, operations)).all().get();
    }

    public static void main(String[] args) throws Exception {
        System.setOut(new java.io.PrintStream(System.out, true, "UTF-8"));
        switch (args[0]) {
            case "settings" -> settings();
            case "values" -> values();
            case "properties" -> properties();
            case "starts" -> starts();
            default -> {
                try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", args[1]))) {
                    if (args[0].equals("topics")) topics(admin);
                    if (args[0].equals("describe")) describe(admin);
                    if (args[0].equals("alter")) {
                        alter(admin, BROKER, "log.retention.ms", "80000000", "message.max.bytes", "1500000");
                        alter(admin, DEFAULTS, "log.segment.bytes", "5000000", "message.max.bytes", "1600000",
                            "log.roll.ms", "70000000", "some.unknown.dynamic", "5");
                    }
                }
            }
        }
    }
}
