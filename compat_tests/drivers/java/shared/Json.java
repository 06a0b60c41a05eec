import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads and writes JSON: objects are maps, arrays lists, whole numbers of type Long, all others
 * BigDecimal.
 */
final class Json {
    private final String text;
    private int position;

    private Json(String text) {
        this.text = text;
    }

    static Object read(String text) {
        Json reader = new Json(text);
        Object value = reader.value();
        if (reader.next() != 0) {
            throw reader.unexpected();
        }
        return value;
    }

    static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private Object value() {
        char first = next();
        switch (first) {
            case '{':
                return object();
            case '[':
                return array();
            case '"':
                return string();
            case 't':
                return word("true", Boolean.TRUE);
            case 'f':
                return word("false", Boolean.FALSE);
            case 'n':
                return word("null", null);
            default:
                return number();
        }
    }

    private Map<String, Object> object() {
        Map<String, Object> members = new LinkedHashMap<>();
        position++;
        while (next() != '}') {
            if (!members.isEmpty()) {
                skip(',');
            }
            String name = string();
            skip(':');
            members.put(name, value());
        }
        position++;
        return members;
    }

    private List<Object> array() {
        List<Object> elements = new ArrayList<>();
        position++;
        while (next() != ']') {
            if (!elements.isEmpty()) {
                skip(',');
            }
            elements.add(value());
        }
        position++;
        return elements;
    }

    private String string() {
        skip('"');
        StringBuilder out = new StringBuilder();
        while (at() != '"') {
            if (at() == 0) {
                throw unexpected();
            }
            char one = text.charAt(position++);
            out.append(one == '\\' ? escaped() : one);
        }
        position++;
        return out.toString();
    }

    private char escaped() {
        char kind = at();
        position++;
        switch (kind) {
            case 'u':
                position += 4;
                return (char) Integer.parseInt(text.substring(position - 4, position), 16);
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            default:
                return kind;
        }
    }

    private Object word(String word, Object meaning) {
        if (!text.startsWith(word, position)) {
            throw unexpected();
        }
        position += word.length();
        return meaning;
    }

    private Number number() {
        int start = position;
        while ("+-.0123456789eE".indexOf(at()) >= 0) {
            position++;
        }
        String digits = text.substring(start, position);
        if (digits.isEmpty()) {
            throw unexpected();
        }
        return digits.matches("-?\\d+") ? (Number) Long.valueOf(digits) : new BigDecimal(digits);
    }

    private void skip(char expected) {
        if (next() != expected) {
            throw unexpected();
        }
        position++;
    }

    /** The next character that is no space; 0 at the end. */
    private char next() {
        while (at() != 0 && at() <= ' ') {
            position++;
        }
        return at();
    }

    private char at() {
        return position < text.length() ? text.charAt(position) : 0;
    }

    private IllegalArgumentException unexpected() {
        return new IllegalArgumentException("no JSON at " + position + ": " + text);
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof Map<?, ?> members) {
            String before = "{";
            for (Map.Entry<?, ?> one : members.entrySet()) {
                out.append(before);
                write(one.getKey().toString(), out);
                out.append(':');
                write(one.getValue(), out);
                before = ",";
            }
            out.append(members.isEmpty() ? "{}" : "}");
        } else if (value instanceof Iterable<?> elements) {
            String before = "";
            out.append('[');
            for (Object one : elements) {
                out.append(before);
                write(one, out);
                before = ",";
            }
            out.append(']');
        } else if (value instanceof String string) {
            write(string, out);
        } else {
            out.append(value);
        }
    }

    private static void write(String string, StringBuilder out) {
        out.append('"');
        for (char one : string.toCharArray()) {
            if (one == '"' || one == '\\') {
                out.append('\\').append(one);
            } else if (one < ' ') {
                out.append(String.format("\\u%04x", (int) one));
            } else {
                out.append(one);
            }
        }
        out.append('"');
    }
}
