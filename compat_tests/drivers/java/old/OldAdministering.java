import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.TopicDescription;

/** An admin client of 1.1. */
final class OldAdministering extends Administering {
    OldAdministering(String bootstrap) {
        super(bootstrap);
    }

    @Override
    protected TopicDescription description(String topic) throws Exception {
        return admin().describeTopics(List.of(topic)).values().get(topic).get();
    }

    @Override
    protected void closeWithin(AdminClient closed, long ms) {
        closed.close(ms, TimeUnit.MILLISECONDS);
    }
}
