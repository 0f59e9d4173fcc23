// Stream prints an answer as it is written. If the connection is cut, it follows the run.
package main

import (
	"context"
	"errors"
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
	question := &agentd.ChatUserMessage{Content: agentd.MessageContent{Value: "Explain the build."}}
	stream := client.StreamChatCompletion(ctx, &agentd.ChatCompletionRequest{
		Messages: []agentd.ChatMessage{{Value: question}},
		Agent:    &agentd.AgentOptions{OnDisconnect: "continue"},
	}, agentd.StreamChatCompletionParams{})
	defer stream.Close()
	for stream.Next() {
		for _, choice := range stream.Event().Choices {
			if choice.Delta.Content != nil {
				fmt.Print(*choice.Delta.Content)
			}
		}
	}
	var cut *agentd.StreamCutError
	if errors.As(stream.Err(), &cut) && cut.RunID != "" {
		follow(ctx, client, cut.RunID)
	} else if stream.Err() != nil {
		log.Fatal(stream.Err())
	}
	fmt.Println()
}

// follow prints the kinds of a run's events. It resumes by itself after a cut.
func follow(ctx context.Context, client *agentd.Client, runID string) {
	events := client.StreamRunEvents(ctx, runID, agentd.StreamRunEventsParams{})
	defer events.Close()
	for events.Next() {
		event := events.Event()
		fmt.Println(event.Kind())
	}
	if events.Err() != nil {
		log.Fatal(events.Err())
	}
}
