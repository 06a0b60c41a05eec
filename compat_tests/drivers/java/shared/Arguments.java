import java.util.AbstractMap.SimpleEntry;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The arguments of a request, or of an object in one. What is null counts as left out. */
final class Arguments {
    private final Map<?, ?> members;

    Arguments(Object json) {
        members = (Map<?, ?>) json;
    }

    boolean has(String name) {
        return members.get(name) != null;
    }

    String text(String name) {
        return (String) needed(name);
    }

    String text(String name, String otherwise) {
        return has(name) ? text(name) : otherwise;
    }

    long number(String name) {
        return ((Number) needed(name)).longValue();
    }

    long number(String name, long otherwise) {
        return has(name) ? number(name) : otherwise;
    }

    boolean isNumber(String name) {
        return members.get(name) instanceof Number;
    }

    byte[] bytes(String name) {
        return decoded(members.get(name));
    }

    /** Headers: names, each with its value. One name may come more than once. */
    List<Map.Entry<String, byte[]>> headers(String name) {
        List<Map.Entry<String, byte[]>> found = new ArrayList<>();
        for (Object one : list(name)) {
            List<?> pair = (List<?>) one;
            found.add(new SimpleEntry<>(
                (String) pair.get(0), decoded(pair.get(1))));
        }
        return found;
    }

    List<Arguments> objects(String name) {
        return list(name).stream().map(Arguments::new).toList();
    }

    List<String> texts(String name) {
        return list(name).stream().map(one -> (String) one).toList();
    }

    Map<String, String> pairs(String name) {
        Map<String, String> found = new LinkedHashMap<>();
        if (has(name)) {
            ((Map<?, ?>) members.get(name)).forEach(
                (key, value) -> found.put((String) key, (String) value));
        }
        return found;
    }

    /** The library's settings, by their names there, for the arguments that are given. */
    Map<String, Object> settings(Map<String, String> names) {
        Map<String, Object> found = new HashMap<>();
        names.forEach((argument, setting) -> {
            if (has(argument)) {
                found.put(setting, members.get(argument).toString());
            }
        });
        return found;
    }

    static String encoded(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    private static byte[] decoded(Object text) {
        return text == null ? null : Base64.getDecoder().decode((String) text);
    }

    private List<?> list(String name) {
        return has(name) ? (List<?>) members.get(name) : List.of();
    }

    private Object needed(String name) {
        if (!has(name)) {
            throw new IllegalArgumentException("the request lacks '" + name + "'");
        }
        return members.get(name);
    }
}
