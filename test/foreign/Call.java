// Drives the client that openapi-generator makes. Compiled with it by scripts/foreign-clients.ts.
import java.util.List;
import org.openapitools.client.ApiClient;
import org.openapitools.client.api.ChatApi;
import org.openapitools.client.api.JobsApi;
import org.openapitools.client.api.RunsApi;
import org.openapitools.client.model.ChatCompletion;
import org.openapitools.client.model.ChatCompletionRequest;
import org.openapitools.client.model.ChatMessage;
import org.openapitools.client.model.ChatUserMessage;
import org.openapitools.client.model.ContentPart;
import org.openapitools.client.model.CreateJobBody;
import org.openapitools.client.model.CreateRunRequest;
import org.openapitools.client.model.CreateRunRequestInput;
import org.openapitools.client.model.Job;
import org.openapitools.client.model.JobList;
import org.openapitools.client.model.MessageContent;
import org.openapitools.client.model.RunAccepted;
import org.openapitools.client.model.TextPart;

public class Call {
    public static void main(String[] args) throws Exception {
        ApiClient client = new ApiClient();
        client.setBasePath(System.getenv("AGENTD_URL"));
        client.setBearerToken(System.getenv("API_SERVER_KEY"));
        TextPart part = new TextPart().type(TextPart.TypeEnum.TEXT).text(System.getenv("AGENTD_PROMPT"));
        ChatUserMessage user = new ChatUserMessage().role(ChatUserMessage.RoleEnum.USER)
            .content(new MessageContent(List.of(new ContentPart(part))));
        ChatCompletionRequest request = new ChatCompletionRequest().messages(List.of(new ChatMessage(user)));
        ChatCompletion completion = new ChatApi(client).createChatCompletion(request, null, null, null, null, null, null);
        System.out.println(completion.getChoices().get(0).getMessage().getContent());
        CreateRunRequest run = new CreateRunRequest().input(new CreateRunRequestInput("hello"));
        RunAccepted accepted = new RunsApi(client).createRun(run, null, null, null, null, null);
        // Many members of a run that has begun are null.
        new RunsApi(client).getRun(accepted.getRunId(), null, null);
        System.out.printf(java.util.Locale.ROOT, "created %.3f%n", accepted.getCreatedAt());
        CreateJobBody wanted = new CreateJobBody().schedule("every 2h").prompt("hello").name("foreign-java");
        JobsApi jobs = new JobsApi(client);
        Job job = jobs.createJob(wanted, null, null, null);
        JobList found = jobs.listJobs(List.of(job.getState()), null, job.getName(), null, null, null, null);
        System.out.printf("job %s %s %d%n", job.getName(), job.getState(), found.getData().size());
        System.exit(0);
    }
}
