// Drives the client that oapi-codegen makes. Compiled with it by scripts/foreign-clients.ts.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
)

func main() {
	client, err := NewClientWithResponses(os.Getenv("AGENTD_URL"), WithRequestEditorFn(
		func(_ context.Context, request *http.Request) error {
			request.Header.Set("Authorization", "Bearer "+os.Getenv("API_SERVER_KEY"))
			return nil
		}))
	check(err)
	var part ContentPart
	check(part.FromTextPart(TextPart{Text: os.Getenv("AGENTD_PROMPT")}))
	user := ChatUserMessage{}
	check(user.Content.FromContentParts(ContentParts{part}))
	var message ChatMessage
	check(message.FromChatUserMessage(user))
	chat, err := client.CreateChatCompletionWithResponse(context.Background(), nil,
		ChatCompletionRequest{Messages: []ChatMessage{message}})
	check(err)
	if chat.JSON200 == nil {
		check(fmt.Errorf("%s: %s", chat.Status(), chat.Body))
	}
	fmt.Println(*chat.JSON200.Choices[0].Message.Content)
	var input CreateRunRequest_Input
	check(input.FromCreateRunRequestInput0("hello"))
	run, err := client.CreateRunWithResponse(context.Background(), nil, CreateRunRequest{Input: input})
	check(err)
	fmt.Printf("created %.3f\n", run.JSON202.CreatedAt)
	name, prompt := "foreign-go", "hello"
	job, err := client.CreateJobWithResponse(context.Background(), nil,
		CreateJobBody{Schedule: "every 2h", Prompt: &prompt, Name: &name})
	check(err)
	if job.JSON201 == nil {
		check(fmt.Errorf("%s: %s", job.Status(), job.Body))
	}
	jobs, err := client.ListJobsWithResponse(context.Background(),
		&ListJobsParams{Name: &name, State: &[]JobState{job.JSON201.State}})
	check(err)
	fmt.Println("job", job.JSON201.Name, job.JSON201.State, len(jobs.JSON200.Data))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The frames of the streams are types as well.
var _ = func(event ResponseStreamEvent) (interface{}, error) { return event.ValueByDiscriminator() }
