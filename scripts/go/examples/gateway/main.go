// Gateway holds a conversation over the gateway and answers the agent's questions.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/agentd/agentd-go/gateway"
)

func main() {
	ctx := context.Background()
	client, err := gateway.Connect(ctx, gateway.Options{
		Transport: gateway.WebSocket{URL: os.Getenv("AGENTD_URL"), Token: os.Getenv("API_SERVER_KEY")},
		Questions: &gateway.Questions{
			Approval: func(_ context.Context, question *gateway.ApprovalParams) (*gateway.ApprovalAnswer, error) {
				fmt.Println("approved:", question.Command)
				return &gateway.ApprovalAnswer{Choice: gateway.AskChoiceOnce}, nil
			},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	session, err := client.SessionCreate(ctx, gateway.SessionCreateParams{})
	if err != nil {
		log.Fatal(err)
	}
	events := client.Events(session.SessionID)
	_, err = client.PromptSubmit(ctx, gateway.PromptSubmitParams{
		SessionID: session.SessionID,
		Text:      gateway.PromptSubmitParamsText{Value: "Clean the build folder."},
	})
	if err != nil {
		log.Fatal(err)
	}
	for {
		event, err := events.Next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if complete, ok := event.Value.(*gateway.MessageCompleteEvent); ok {
			fmt.Println(complete.Payload.Text)
			return
		}
	}
}
