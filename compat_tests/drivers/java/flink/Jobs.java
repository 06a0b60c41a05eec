import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.core.execution.JobClient;

/** At most one job at a time, on a Flink cluster in this process that ends with it. */
final class Jobs implements Part {
    private final String bootstrap;
    private JobClient job;
    private CompletableFuture<JobExecutionResult> result;

    Jobs(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    @Override
    public void register(Conversation conversation) {
        conversation.follow("start", arguments -> {
            Squares.begin();
            job = Pipeline.started(bootstrap, arguments);
            result = job.getJobExecutionResult();
        });
        conversation.follow("fail", arguments -> Squares.failAfter(arguments.number("records")));
        conversation.answer("state",
            arguments -> Map.of("status", status(), "failures", Squares.failures()));
        conversation.follow("cancel", arguments -> cancel());
    }

    @Override
    public void end() {
        try {
            if (job != null && !result.isDone()) {
                cancel();
            }
        } catch (Exception failure) {
            failure.printStackTrace(); // the process ends anyway
        }
    }

    private String status() throws Exception {
        if (!result.isDone()) {
            try {
                return job.getJobStatus().get().name();
            } catch (ExecutionException | IllegalStateException gone) {
                // The cluster has just ended.
            }
        }
        result.get(CLOSE_WITHIN_MS, TimeUnit.MILLISECONDS); // throws what the job failed of
        return JobStatus.FINISHED.name();
    }

    private void cancel() throws ExecutionException, InterruptedException, TimeoutException {
        job.cancel().get();
        try {
            result.get(CLOSE_WITHIN_MS, TimeUnit.MILLISECONDS);
        } catch (ExecutionException cancelled) {
            // That is how a cancelled job ends.
        }
    }
}
