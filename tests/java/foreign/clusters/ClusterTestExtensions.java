package org.apache.kafka.common.test.junit;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfigProperty;
import org.apache.kafka.common.test.api.ClusterTest;
import org.apache.kafka.common.test.api.ClusterTestDefaults;
import org.apache.kafka.common.test.api.ClusterTests;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.common.MetadataVersion;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.junit.jupiter.api.extension.TestTemplateInvocationContextProvider;

/**
 * Stands before the class of this name in Apache Kafka's tests: each of their tests runs on a
 * cluster outside this JVM (see OutsideCluster), once for each @ClusterTest and each of its types.
 */
public final class ClusterTestExtensions implements TestTemplateInvocationContextProvider {
    @Override
    public boolean supportsTestTemplate(ExtensionContext context) {
        return !wanted(context.getRequiredTestMethod()).isEmpty();
    }

    @Override
    public Stream<TestTemplateInvocationContext> provideTestTemplateInvocationContexts(
            ExtensionContext context) {
        Method test = context.getRequiredTestMethod();
        if (context.getRequiredTestClass().isAnnotationPresent(ClusterTestDefaults.class)) {
            throw new UnsupportedOperationException("@ClusterTestDefaults");
        }
        return wanted(test).stream()
                .flatMap(one -> types(one).map(type -> new Invocation(test, one, type)));
    }

    private static List<ClusterTest> wanted(Method test) {
        List<ClusterTest> found = new ArrayList<>();
        if (test.isAnnotationPresent(ClusterTest.class)) {
            found.add(test.getAnnotation(ClusterTest.class));
        }
        if (test.isAnnotationPresent(ClusterTests.class)) {
            found.addAll(List.of(test.getAnnotation(ClusterTests.class).value()));
        }
        return found;
    }

    /** Those that it names, or all. */
    private static Stream<Type> types(ClusterTest wanted) {
        Type[] named = wanted.types();
        return Stream.of(named.length == 0 ? Type.values() : named);
    }

    /** One run of one test. */
    private record Invocation(Method test, ClusterTest wanted, Type type)
            implements TestTemplateInvocationContext {
        @Override
        public String getDisplayName(int index) {
            return "[" + index + "] " + type + " " + asked(wanted);
        }

        @Override
        public List<Extension> getAdditionalExtensions() {
            return List.of(new WithCluster(new OutsideCluster(test.getName(), wanted, type)));
        }
    }

    /** The cluster is there from before @BeforeEach until after @AfterEach. */
    private record WithCluster(OutsideCluster cluster)
            implements BeforeEachCallback, AfterEachCallback, ParameterResolver {
        @Override
        public void beforeEach(ExtensionContext context) throws Exception {
            cluster.open();
        }

        @Override
        public void afterEach(ExtensionContext context) throws Exception {
            cluster.close();
        }

        @Override
        public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
            return parameter.getParameter().getType() == ClusterInstance.class;
        }

        @Override
        public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
            return cluster;
        }
    }

    /** What the annotation asks for beyond its defaults, but the types: in the words of JSON. */
    static Map<String, Object> asked(ClusterTest wanted) {
        Map<String, Object> asked = new TreeMap<>();
        for (Method attribute : ClusterTest.class.getDeclaredMethods()) {
            Object value = value(attribute, wanted);
            if (!Objects.deepEquals(value, attribute.getDefaultValue())) {
                asked.put(attribute.getName(), value);
            }
        }
        asked.remove("types");
        asked.computeIfPresent("metadataVersion", (name, value) -> plain((MetadataVersion) value));
        if (asked.remove("serverProperties") != null) {
            for (ClusterConfigProperty one : wanted.serverProperties()) {
                String of = one.id() == -1 ? "serverProperties" : "properties of server " + one.id();
                properties(asked, of).put(one.key(), one.value());
            }
        }
        return asked;
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> properties(Map<String, Object> asked, String of) {
        return (Map<String, Object>) asked.computeIfAbsent(of, name -> new TreeMap<>());
    }

    static Map<String, Object> plain(MetadataVersion version) {
        return Map.of("name", version.version(), "level", version.featureLevel());
    }

    private static Object value(Method attribute, ClusterTest wanted) {
        try {
            return attribute.invoke(wanted);
        } catch (ReflectiveOperationException failure) {
            throw new IllegalStateException(failure);
        }
    }
}
