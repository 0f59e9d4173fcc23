// Chat asks one question. The server is at AGENTD_URL, or on this machine; the key is in API_SERVER_KEY.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	agentd "github.com/agentd/agentd-go"
)

func main() {
	client, err := agentd.NewClient(agentd.Options{BaseURL: os.Getenv("AGENTD_URL")})
	if err != nil {
		log.Fatal(err)
	}
	question := &agentd.ChatUserMessage{Content: agentd.MessageContent{Value: "What is in this folder?"}}
	answer, err := client.CreateChatCompletion(context.Background(), &agentd.ChatCompletionRequest{
		Messages: []agentd.ChatMessage{{Value: question}},
	}, agentd.CreateChatCompletionParams{})
	if err != nil {
		log.Fatal(err)
	}
	if text := answer.Choices[0].Message.Content; text != nil {
		fmt.Println(*text)
	}
}
