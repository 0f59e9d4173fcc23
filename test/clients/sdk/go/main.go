// The scenarios in Go. Each function returns its outcome; the program prints one line of JSON for each.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	agentd "github.com/agentd/agentd-go"
	"github.com/agentd/agentd-go/gateway"
)

type outcome = map[string]any

var stage struct {
	URL           string            `json:"url"`
	Key           string            `json:"key"`
	ReadKey       string            `json:"readKey"`
	LimitedKey    string            `json:"limitedKey"`
	CutURL        string            `json:"cutUrl"`
	WideCutURL    string            `json:"wideCutUrl"`
	GatewayCutURL string            `json:"gatewayCutUrl"`
	Command       []string          `json:"command"`
	Env           map[string]string `json:"env"`
	Tag           string            `json:"tag"`
}

var ctx = context.Background()

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func client(url, key string, retries int) *agentd.Client {
	retry := agentd.RetryPolicy{MaxRetries: retries, MaxReconnects: 8, FirstDelay: time.Millisecond, MaxDelay: 10 * time.Millisecond, MaxRetryAfter: time.Second}
	return must(agentd.NewClient(agentd.Options{BaseURL: url, APIKey: key, Retry: &retry}))
}

func here() *agentd.Client    { return client(stage.URL, stage.Key, 2) }
func cutting() *agentd.Client { return client(stage.CutURL, stage.Key, 2) }

func refused(err error) outcome {
	var api *agentd.APIError
	if !errors.As(err, &api) {
		panic(fmt.Sprintf("no APIError: %v", err))
	}
	kinds := map[string]error{
		"authentication": agentd.ErrAuthentication, "permission": agentd.ErrPermissionDenied, "not_found": agentd.ErrNotFound,
		"conflict": agentd.ErrConflict, "rate_limit": agentd.ErrRateLimited,
	}
	kind := "api"
	for name, target := range kinds {
		if errors.Is(err, target) {
			kind = name
		}
	}
	return outcome{"kind": kind, "status": api.Status, "code": api.Code}
}

func collect[T any](stream *agentd.Stream[T]) []T {
	all, err := collectUntilCut(stream)
	check(err)
	return all
}

func collectUntilCut[T any](stream *agentd.Stream[T]) ([]T, error) {
	defer stream.Close()
	var all []T
	for stream.Next() {
		all = append(all, stream.Event())
	}
	return all, stream.Err()
}

func ask(text string) *agentd.ChatCompletionRequest {
	content := agentd.MessageContent{Value: text}
	return &agentd.ChatCompletionRequest{Messages: []agentd.ChatMessage{{Value: &agentd.ChatUserMessage{Content: content}}}}
}

func run(input string) *agentd.CreateRunRequest {
	return &agentd.CreateRunRequest{Input: agentd.CreateRunRequestInput{Value: input}}
}

func start(input string) string {
	return must(here().CreateRun(ctx, run(input), agentd.CreateRunParams{})).RunID
}

func said(chunks []agentd.ChatCompletionChunk) string {
	var text strings.Builder
	for _, chunk := range chunks {
		for _, choice := range chunk.Choices {
			if choice.Delta.Content != nil {
				text.WriteString(*choice.Delta.Content)
			}
		}
	}
	return text.String()
}

func seq(event agentd.RunEvent) int {
	var head struct{ Seq int }
	check(json.Unmarshal(event.Raw, &head))
	return head.Seq
}

func counts(events []agentd.RunEvent) bool {
	for at, event := range events {
		if seq(event) != at+1 {
			return false
		}
	}
	return true
}

func runText(events []agentd.RunEvent) string {
	var text strings.Builder
	for _, event := range events {
		if delta, ok := event.Value.(*agentd.MessageDeltaEvent); ok {
			text.WriteString(delta.Delta)
		}
	}
	return text.String()
}

func runEvents(c *agentd.Client, id string, params agentd.StreamRunEventsParams) []agentd.RunEvent {
	return collect(c.StreamRunEvents(ctx, id, params))
}

func responseOutcome(events []agentd.ResponseStreamEvent) outcome {
	var text strings.Builder
	inOrder := true
	for at, event := range events {
		var head struct {
			Number int `json:"sequence_number"`
		}
		check(json.Unmarshal(event.Raw, &head))
		inOrder = inOrder && head.Number == at
		if delta, ok := event.Value.(*agentd.ResponseTextDeltaEvent); ok {
			text.WriteString(delta.Delta)
		}
	}
	return outcome{"text": text.String(), "last": events[len(events)-1].Kind(), "in_order": inOrder}
}

func endOfRun(choice agentd.ApprovalBodyChoice) string {
	id := start("ask me")
	stream := here().StreamRunEvents(ctx, id, agentd.StreamRunEventsParams{})
	output := ""
	for stream.Next() {
		switch event := stream.Event().Value.(type) {
		case *agentd.ApprovalRequestEvent:
			body := &agentd.ApprovalBody{Choice: choice, RequestID: &event.RequestID}
			must(here().ResolveRunApproval(ctx, id, body, agentd.ResolveRunApprovalParams{}))
		case *agentd.RunCompletedEvent:
			if event.Output != nil {
				output = *event.Output
			}
		}
	}
	check(stream.Err())
	return output
}

func responseRequest() *agentd.CreateResponseRequest {
	return &agentd.CreateResponseRequest{Input: agentd.Some(agentd.CreateResponseRequestInput{Value: "hi"})}
}

var scenarios = map[string]func() outcome{
	"health": func() outcome { return outcome{"status": must(here().GetHealth(ctx)).Status} },
	"chat": func() outcome {
		answer := must(here().CreateChatCompletion(ctx, ask("hi"), agentd.CreateChatCompletionParams{}))
		return outcome{"text": answer.Choices[0].Message.Content}
	},
	"chat_stream": func() outcome {
		chunks := collect(here().StreamChatCompletion(ctx, ask("hi"), agentd.StreamChatCompletionParams{}))
		return outcome{"text": said(chunks), "pieces": len(chunks) > 3}
	},
	"chat_stream_cut": func() outcome {
		body := ask("hi")
		body.Agent = &agentd.AgentOptions{OnDisconnect: "continue"}
		_, err := collectUntilCut(cutting().StreamChatCompletion(ctx, body, agentd.StreamChatCompletionParams{}))
		var cut *agentd.StreamCutError
		if !errors.As(err, &cut) {
			panic(fmt.Sprintf("not cut: %v", err))
		}
		return outcome{"text": runText(runEvents(here(), cut.RunID, agentd.StreamRunEventsParams{}))}
	},
	"response_stream": func() outcome {
		all := responseOutcome(collect(here().StreamResponse(ctx, responseRequest(), agentd.StreamResponseParams{})))
		delete(all, "in_order")
		return all
	},
	"follow_response_cut": func() outcome {
		body := responseRequest()
		body.Background = agentd.Some(true)
		response := must(here().CreateResponse(ctx, body, agentd.CreateResponseParams{}))
		wide := client(stage.WideCutURL, stage.Key, 2)
		return responseOutcome(collect(wide.FollowResponse(ctx, response.ID, agentd.FollowResponseParams{})))
	},
	"run_events": func() outcome {
		events := runEvents(here(), start("hi"), agentd.StreamRunEventsParams{})
		return outcome{"first": events[0].Kind(), "last": events[len(events)-1].Kind(), "in_order": counts(events)}
	},
	"run_events_cut": func() outcome {
		events := runEvents(cutting(), start("hi"), agentd.StreamRunEventsParams{})
		return outcome{"text": runText(events), "last": events[len(events)-1].Kind(), "in_order": counts(events)}
	},
	"run_events_from_middle": func() outcome {
		id := start("hi")
		runEvents(here(), id, agentd.StreamRunEventsParams{})
		events := runEvents(here(), id, agentd.StreamRunEventsParams{LastEventID: "2"})
		return outcome{"first": seq(events[0]), "last": events[len(events)-1].Kind()}
	},
	"feed_cut": func() outcome {
		var listed agentd.ResponseInfo
		must(here().ListSessions(ctx, agentd.ListSessionsParams{}, agentd.WithResponse(&listed)))
		var made, found []string
		for len(made) < 12 {
			session := must(here().CreateSession(ctx, &agentd.CreateSessionBody{}, agentd.CreateSessionParams{}))
			made = append(made, session.ID)
		}
		after := listed.Header.Get("X-Agent-Event-Cursor")
		stream := cutting().StreamEvents(ctx, agentd.StreamEventsParams{After: after, Types: []string{"session.created"}})
		for !slices.Contains(found, made[11]) && stream.Next() {
			if event, isEvent := stream.Event().Value.(*agentd.FeedEvent); isEvent && slices.Contains(made, event.Data.ID) {
				found = append(found, event.Data.ID)
			}
		}
		check(stream.Err())
		check(stream.Close())
		return outcome{"events": len(found), "in_order": slices.Equal(found, made)}
	},
	"run_approved": func() outcome { return outcome{"output": endOfRun("once")} },
	"run_denied":   func() outcome { return outcome{"ran": strings.Contains(endOfRun("deny"), "it ran")} },
	"run_cancelled": func() outcome {
		id, last := start("hold"), ""
		stream := here().StreamRunEvents(ctx, id, agentd.StreamRunEventsParams{})
		for stream.Next() {
			last = stream.Event().Kind()
			if last == "message.delta" {
				must(here().StopRun(ctx, id, nil, agentd.StopRunParams{}))
			}
		}
		check(stream.Err())
		return outcome{"last": last, "status": must(here().GetRun(ctx, id, agentd.GetRunParams{})).Status}
	},
	"idempotent_replay": func() outcome {
		key := agentd.CreateRunParams{IdempotencyKey: "replay-" + stage.Tag}
		var info agentd.ResponseInfo
		first := must(here().CreateRun(ctx, run("hi"), key))
		second := must(here().CreateRun(ctx, run("hi"), key, agentd.WithResponse(&info)))
		return outcome{"same": first.RunID == second.RunID, "replayed": info.Header.Get("Idempotency-Replayed")}
	},
	"idempotency_conflict": func() outcome {
		key := agentd.CreateRunParams{IdempotencyKey: "conflict-" + stage.Tag}
		must(here().CreateRun(ctx, run("hi"), key))
		_, err := here().CreateRun(ctx, run("another"), key)
		return refused(err)
	},
	"list_pages": func() outcome {
		start("one")
		start("two")
		first := must(here().ListRuns(ctx, agentd.ListRunsParams{Limit: agentd.Ptr(int64(1))}))
		second := must(here().ListRuns(ctx, agentd.ListRunsParams{Limit: agentd.Ptr(int64(1)), After: *first.LastID}))
		return outcome{"pages": len(first.Data) + len(second.Data), "same": first.Data[0].RunID == second.Data[0].RunID}
	},
	"not_found": func() outcome {
		_, err := here().GetRun(ctx, "run_unknown", agentd.GetRunParams{})
		return refused(err)
	},
	"unauthorized": func() outcome {
		_, err := client(stage.URL, "wrong-key-0123456789", 0).ListRuns(ctx, agentd.ListRunsParams{})
		return refused(err)
	},
	"forbidden": func() outcome {
		_, err := client(stage.URL, stage.ReadKey, 0).CreateRun(ctx, run("hi"), agentd.CreateRunParams{})
		return refused(err)
	},
	"rate_limited": func() outcome {
		limited := client(stage.URL, stage.LimitedKey, 0)
		for i := 0; i < 8; i++ {
			_, err := limited.ListRuns(ctx, agentd.ListRunsParams{})
			var api *agentd.APIError
			if errors.As(err, &api) {
				found := refused(err)
				found["waits"] = api.RetryAfter > 0
				return found
			}
		}
		return nil
	},
	"invalid_request": func() outcome {
		_, err := here().ListRuns(ctx, agentd.ListRunsParams{Limit: agentd.Ptr(int64(0))})
		found := refused(err)
		found["param"] = err.(*agentd.APIError).Param
		return found
	},
	"unreachable": func() outcome {
		_, err := client("http://127.0.0.1:1", "", 0).GetHealth(ctx)
		var connection *agentd.ConnectionError
		if errors.As(err, &connection) {
			return outcome{"kind": "connection"}
		}
		return nil
	},
	"gateway_error": func() outcome {
		g := connect(stage.URL, nil)
		defer g.Close()
		pong := must(g.Ping(ctx)).Pong
		_, err := g.SessionUsage(ctx, gateway.SessionUsageParams{SessionID: "none"})
		var failure *gateway.Error
		if !errors.As(err, &failure) {
			panic(fmt.Sprintf("no gateway.Error: %v", err))
		}
		return outcome{"pong": pong, "code": failure.Code, "reason": failure.Reason, "retryable": failure.Retryable}
	},
	"gateway_prompt": func() outcome { return wholeTurn(stage.URL) },
	"gateway_cut":    func() outcome { return wholeTurn(stage.GatewayCutURL) },
	"gateway_approval": func() outcome {
		asked := make(chan string, 1)
		g := connect(stage.URL, &gateway.Questions{
			Approval: func(_ context.Context, question *gateway.ApprovalParams) (*gateway.ApprovalAnswer, error) {
				asked <- question.Command
				return &gateway.ApprovalAnswer{Choice: gateway.AskChoiceOnce}, nil
			},
		})
		defer g.Close()
		return outcome{"text": turn(g, "ask me", nil)["text"], "asked": <-asked}
	},
	"gateway_clarify": func() outcome {
		g := connect(stage.URL, nil)
		defer g.Close()
		question := ""
		all := turn(g, "clarify", func(event *gateway.Event) {
			asked, ok := event.Value.(*gateway.ClarifyAskedEvent)
			if !ok {
				return
			}
			question = asked.Payload.Question
			answer := gateway.ClarifyRespondParams{RequestID: asked.Payload.RequestID, Answer: "this", SessionID: &event.SessionID}
			must(g.ClarifyRespond(ctx, answer))
		})
		return outcome{"text": all["text"], "question": question}
	},
	"gateway_declined": func() outcome {
		g := connect(stage.URL, &gateway.Questions{})
		defer g.Close()
		return outcome{"ran": strings.Contains(turn(g, "ask me", nil)["text"].(string), "it ran")}
	},
	"gateway_interrupt": func() outcome {
		g := connect(stage.URL, nil)
		defer g.Close()
		interrupted := ""
		all := turn(g, "hold", func(event *gateway.Event) {
			if event.Type == gateway.EventMessageDelta && interrupted == "" {
				interrupted = string(must(g.SessionInterrupt(ctx, gateway.SessionInterruptParams{SessionID: event.SessionID})).Status)
			}
		})
		return outcome{"interrupted": interrupted, "status": all["status"]}
	},
	"gateway_wrong_key": func() outcome {
		_, err := gateway.Connect(ctx, gateway.Options{Transport: gateway.WebSocket{URL: stage.URL, Token: "wrong-key-0123456789"}})
		var failure *gateway.TransportError
		return outcome{"refused": errors.As(err, &failure)}
	},
	"gateway_stdio": func() outcome {
		var env []string
		for name, value := range stage.Env {
			env = append(env, name+"="+value)
		}
		transport := gateway.Spawn{Command: stage.Command[0], Args: stage.Command[1:], Env: env}
		g := must(gateway.Connect(ctx, gateway.Options{Transport: transport}))
		defer g.Close()
		all := turn(g, "hello there", nil)
		isWhole := all["text"] != "" && all["text"] == all["deltas"]
		return outcome{"protocol": g.Ready().Protocol.Name, "whole": isWhole, "status": all["status"]}
	},
}

func connect(url string, questions *gateway.Questions) *gateway.Client {
	return must(gateway.Connect(ctx, gateway.Options{
		Transport: gateway.WebSocket{URL: url, Token: stage.Key},
		Questions: questions,
		Reconnect: &gateway.Reconnect{First: time.Millisecond, Max: 20 * time.Millisecond, Attempts: 200},
	}))
}

func wholeTurn(url string) outcome {
	g := connect(url, nil)
	defer g.Close()
	return turn(g, "hi", nil)
}

// turn reads one turn to its end; hear sees every event.
func turn(g *gateway.Client, text string, hear func(*gateway.Event)) outcome {
	id := must(g.SessionCreate(ctx, gateway.SessionCreateParams{})).SessionID
	events := g.Events(id)
	defer events.Close()
	must(g.PromptSubmit(ctx, gateway.PromptSubmitParams{SessionID: id, Text: gateway.PromptSubmitParamsText{Value: text}}))
	deltas, next, inOrder := "", int64(1), true
	for {
		event := must(events.Next(ctx))
		if hear != nil {
			hear(event)
		}
		if event.Seq > 0 {
			var head struct {
				First int64 `json:"first_seq"`
			}
			check(json.Unmarshal(event.Raw, &head))
			if head.First == 0 {
				head.First = event.Seq
			}
			inOrder, next = inOrder && head.First == next, event.Seq+1
		}
		switch value := event.Value.(type) {
		case *gateway.MessageTextEvent:
			deltas += value.Payload.Text
		case *gateway.MessageCompleteEvent:
			return outcome{"text": value.Payload.Text, "deltas": deltas, "in_order": inOrder, "status": value.Payload.Status}
		}
	}
}

func perform(name string) (result any) {
	defer func() {
		if reason := recover(); reason != nil {
			result = outcome{"panic": fmt.Sprint(reason)}
		}
	}()
	return scenarios[name]()
}

func main() {
	check(json.Unmarshal([]byte(os.Args[1]), &stage))
	for _, name := range os.Args[2:] {
		line := must(json.Marshal(outcome{"name": name, "outcome": perform(name)}))
		fmt.Println(string(line))
	}
}
