// Errors shows how the failures of a call are told apart.
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
	client, err := agentd.NewClient(agentd.Options{BaseURL: os.Getenv("AGENTD_URL")})
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.GetRun(context.Background(), "run_unknown", agentd.GetRunParams{})
	var failure *agentd.APIError
	var connection *agentd.ConnectionError
	switch {
	case errors.As(err, &failure):
		fmt.Println(failure.Status, failure.Code, errors.Is(err, agentd.ErrNotFound), failure.RequestID != "")
	case errors.As(err, &connection):
		fmt.Println("no complete answer:", connection)
	case err != nil:
		log.Fatal(err)
	}
}
