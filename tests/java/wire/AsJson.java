import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Frames as JSON and JSON as bodies, by Apache Kafka's message classes and their converters. JSON
 * has the fields by name, so that two fields of a type in each other's place show.
 *
 * In:  direction (1 byte: to JSON, from JSON), kind (1: request, response), API key (2), version
 *      (2), length (4), a frame with its header or the JSON of a body.
 * Out: outcome (1 byte), length (4), JSON or the bytes of a body, or what is wrong.
 */
public final class AsJson {
    private static final int TO_JSON = 0;
    private static final int REQUEST = 0;

    private static final int CONVERTED = 0;
    private static final int REFUSED = 1;

    private static final String MESSAGES = "org.apache.kafka.common.message.";
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final DataOutputStream OUT = new DataOutputStream(System.out);

    public static void main(String[] arguments) throws IOException {
        DataInputStream in = new DataInputStream(System.in);
        while (true) {
            int direction;
            try {
                direction = in.readByte();
            } catch (EOFException end) {
                OUT.flush();
                return;
            }
            int kind = in.readByte();
            ApiMessageType type = ApiMessageType.fromApiKey(in.readShort());
            short version = in.readShort();
            byte[] given = new byte[in.readInt()];
            in.readFully(given);
            try {
                answer(CONVERTED, direction == TO_JSON
                    ? json(kind, type, version, ByteBuffer.wrap(given))
                    : body(kind, type, version, given));
            } catch (ReflectiveOperationException | RuntimeException failure) {
                Throwable cause = failure instanceof InvocationTargetException ? failure.getCause() : failure;
                answer(REFUSED, cause.toString().getBytes(StandardCharsets.UTF_8));
            }
        }
    }

    private static byte[] json(int kind, ApiMessageType type, short version, ByteBuffer frame)
            throws IOException, ReflectiveOperationException {
        ApiMessage header = kind == REQUEST ? new RequestHeaderData() : new ResponseHeaderData();
        ApiMessage body = kind == REQUEST ? type.newRequest() : type.newResponse();
        ByteBufferAccessor readable = new ByteBufferAccessor(frame);
        header.read(readable, kind == REQUEST
            ? type.requestHeaderVersion(version) : type.responseHeaderVersion(version));
        body.read(readable, version);
        if (frame.hasRemaining()) {
            throw new IllegalArgumentException(frame.remaining() + " bytes are left");
        }
        Object written = converter(body).getMethod("write", body.getClass(), short.class)
            .invoke(null, body, version);
        return MAPPER.writeValueAsBytes(written);
    }

    private static byte[] body(int kind, ApiMessageType type, short version, byte[] json)
            throws IOException, ReflectiveOperationException {
        ApiMessage empty = kind == REQUEST ? type.newRequest() : type.newResponse();
        ApiMessage body = (ApiMessage) converter(empty).getMethod("read", JsonNode.class, short.class)
            .invoke(null, MAPPER.readTree(json), version);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer bytes = ByteBuffer.allocate(body.size(cache, version));
        body.write(new ByteBufferAccessor(bytes), cache, version);
        return bytes.array();
    }

    private static Class<?> converter(ApiMessage message) throws ReflectiveOperationException {
        return Class.forName(MESSAGES + message.getClass().getSimpleName() + "JsonConverter");
    }

    private static void answer(int outcome, byte[] bytes) throws IOException {
        OUT.writeByte(outcome);
        OUT.writeInt(bytes.length);
        OUT.write(bytes);
    }
}
