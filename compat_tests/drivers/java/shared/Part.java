import java.util.List;

/** What a driver does with one of the library's clients: its producer, consumer or admin client. */
interface Part {
    /** How long closing a client may take that nobody asked to be closed. */
    long CLOSE_WITHIN_MS = 3_000;

    /** The features that the library on the class path has; an application has none. */
    default List<String> features() {
        return List.of();
    }

    /** Say which requests it carries out. */
    void register(Conversation conversation);

    /** Close the client, if there is one, at the end of the conversation. */
    void end();
}
