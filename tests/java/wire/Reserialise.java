import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Reads frames with Apache Kafka's message classes and writes them again.
 *
 * In:  kind (1 byte: request, response, error codes), API key (2), version (2), length (4), frame.
 * Out: outcome (1 byte), length (4), the frame as Java writes it, or why there is none.
 */
public final class Reserialise {
    private static final int REQUEST = 0;
    private static final int RESPONSE = 1;
    private static final int ERROR_CODES = 2;

    private static final int WRITTEN = 0;
    private static final int NOT_SERVED = 1;
    private static final int REFUSED = 2;
    private static final int READ_ONLY = 3;

    private static final DataOutputStream OUT = new DataOutputStream(System.out);

    public static void main(String[] arguments) throws IOException {
        DataInputStream in = new DataInputStream(System.in);
        while (true) {
            int kind;
            try {
                kind = in.readByte();
            } catch (EOFException end) {
                OUT.flush();
                return;
            }
            short key = in.readShort();
            short version = in.readShort();
            byte[] frame = new byte[in.readInt()];
            in.readFully(frame);
            if (kind == ERROR_CODES) {
                answer(WRITTEN, errorCodes());
            } else {
                check(kind, key, version, ByteBuffer.wrap(frame));
            }
        }
    }

    private static void check(int kind, short key, short version, ByteBuffer frame)
            throws IOException {
        ApiMessageType type = ApiMessageType.fromApiKey(key);
        if (version < type.lowestSupportedVersion() || version > type.highestSupportedVersion(true)) {
            answer(NOT_SERVED, "");
            return;
        }
        short headerVersion = kind == REQUEST
            ? type.requestHeaderVersion(version) : type.responseHeaderVersion(version);
        ApiMessage header = kind == REQUEST ? new RequestHeaderData() : new ResponseHeaderData();
        ApiMessage body = kind == REQUEST ? type.newRequest() : type.newResponse();
        try {
            ByteBufferAccessor readable = new ByteBufferAccessor(frame);
            header.read(readable, headerVersion);
            body.read(readable, version);
        } catch (RuntimeException failure) {
            answer(REFUSED, failure.toString());
            return;
        }
        if (frame.hasRemaining()) {
            answer(REFUSED, frame.remaining() + " bytes are left");
            return;
        }
        try {
            answer(WRITTEN, written(header, headerVersion, body, version));
        } catch (RuntimeException failure) {
            answer(READ_ONLY, failure.toString());
        }
    }

    private static byte[] written(ApiMessage header, short headerVersion, ApiMessage body, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        int bytes = header.size(cache, headerVersion) + body.size(cache, version);
        ByteBuffer frame = ByteBuffer.allocate(bytes);
        ByteBufferAccessor writable = new ByteBufferAccessor(frame);
        header.write(writable, cache, headerVersion);
        body.write(writable, cache, version);
        return frame.array();
    }

    private static byte[] errorCodes() {
        StringBuilder lines = new StringBuilder();
        for (Errors error : Errors.values()) {
            boolean retriable = error.exception() instanceof RetriableException;
            lines.append(error.code()).append(' ').append(error.name()).append(' ').append(retriable).append('\n');
        }
        return lines.toString().getBytes(StandardCharsets.UTF_8);
    }

    private static void answer(int outcome, String reason) throws IOException {
        answer(outcome, reason.getBytes(StandardCharsets.UTF_8));
    }

    private static void answer(int outcome, byte[] bytes) throws IOException {
        OUT.writeByte(outcome);
        OUT.writeInt(bytes.length);
        OUT.write(bytes);
    }
}
