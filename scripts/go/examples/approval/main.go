// Approval starts a run, approves what it asks for, and prints its output.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	agentd "github.com/agentd/agentd-go"
)

func main() {
	ctx := context.Background()
	client, err := agentd.NewClient(agentd.Options{BaseURL: os.Getenv("AGENTD_URL")})
	if err != nil {
		log.Fatal(err)
	}
	run, err := client.CreateRun(ctx, &agentd.CreateRunRequest{
		Input: agentd.CreateRunRequestInput{Value: "Clean the build folder."},
	}, agentd.CreateRunParams{IdempotencyKey: fmt.Sprintf("clean-%d", os.Getpid())})
	if err != nil {
		log.Fatal(err)
	}
	stream := client.StreamRunEvents(ctx, run.RunID, agentd.StreamRunEventsParams{})
	defer stream.Close()
	for stream.Next() {
		switch event := stream.Event().Value.(type) {
		case *agentd.MessageDeltaEvent:
			fmt.Print(event.Delta)
		case *agentd.ApprovalRequestEvent:
			answer := &agentd.ApprovalBody{Choice: "once", RequestID: &event.RequestID}
			if _, err := client.ResolveRunApproval(ctx, run.RunID, answer, agentd.ResolveRunApprovalParams{}); err != nil {
				log.Fatal(err)
			}
		}
	}
	if err := stream.Err(); err != nil {
		log.Fatal(err)
	}
	fmt.Println()
}
