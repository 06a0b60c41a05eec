import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Reads and writes compressed records with Apache Kafka's streams.
 *
 * In:  what to do (1 byte: read, write), codec (1), magic (1), length (4), bytes.
 * Out: outcome (1 byte), length (4), the bytes read or written; where reading failed, those before.
 */
public final class Streams {
    private static final int WRITE = 1;
    private static final int DONE = 0;
    private static final int REFUSED = 1;

    public static void main(String[] arguments) throws IOException {
        DataInputStream in = new DataInputStream(System.in);
        DataOutputStream out = new DataOutputStream(System.out);
        while (true) {
            int todo;
            try {
                todo = in.readByte();
            } catch (EOFException end) {
                out.flush();
                return;
            }
            Compression codec = Compression.of(CompressionType.forId(in.readByte())).build();
            byte magic = in.readByte();
            byte[] data = new byte[in.readInt()];
            in.readFully(data);
            ByteArrayOutputStream made = new ByteArrayOutputStream();
            boolean done = todo == WRITE ? write(codec, magic, data, made)
                : read(codec, magic, data, made);
            out.writeByte(done ? DONE : REFUSED);
            out.writeInt(made.size());
            made.writeTo(out);
        }
    }

    private static boolean read(
            Compression codec, byte magic, byte[] data, ByteArrayOutputStream made) {
        try (InputStream stream =
                codec.wrapForInput(ByteBuffer.wrap(data), magic, BufferSupplier.NO_CACHING)) {
            byte[] part = new byte[4096];
            for (int size = stream.read(part); size >= 0; size = stream.read(part)) {
                made.write(part, 0, size);
            }
            return true;
        } catch (Exception | Error refusal) {
            return false;
        }
    }

    private static boolean write(
            Compression codec, byte magic, byte[] data, ByteArrayOutputStream made)
            throws IOException {
        ByteBufferOutputStream buffer = new ByteBufferOutputStream(data.length + 1024);
        try (OutputStream stream = codec.wrapForOutput(buffer, magic)) {
            stream.write(data);
        }
        made.write(Arrays.copyOf(buffer.buffer().array(), buffer.position()));
        return true;
    }
}
