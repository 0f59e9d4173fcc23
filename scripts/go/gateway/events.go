package gateway

import (
	"context"
	"encoding/json"
	"io"
	"sync"
)

const (
	maxWaitingEvents = 8_192
	maxWaitingBytes  = 16 << 20
	// noticeBytes is the nominal size of a notice.
	noticeBytes = 256
)

// Event is an event of the gateway, or a notice of the client.
type Event struct {
	// Type names the event; for a notice it is the notice's kind.
	Type string

	// SessionID is empty for events that concern no session.
	SessionID string

	// TurnID names the turn, if there is one.
	TurnID string

	// Seq numbers the events of a session; 0 for events that are not stored.
	Seq int64

	// Value is the typed event; nil for a notice, and for an event that this version does not know.
	Value GatewayEventValue

	// Notice is set when the client itself reports something.
	Notice *Notice

	// Raw is the JSON of the event.
	Raw json.RawMessage
}

// Kinds of notices.
const (
	// NoticeState: the connection was cut or restored.
	NoticeState = "client.state"

	// NoticeGap: events of the session are missing. Read its history.
	NoticeGap = "client.gap"

	// NoticeLost: the session could not be resumed after a cut; it sends no more events.
	NoticeLost = "client.lost"

	// NoticeQuestionFailed: a question function returned an error, and the question was declined.
	NoticeQuestionFailed = "client.question_failed"
)

// Notice is what the client itself reports among the events.
type Notice struct {
	// Kind is one of the constants that begin with Notice.
	Kind string

	// State and Attempt belong to NoticeState; Attempt counts connections that failed in a row.
	State   State
	Attempt int

	// Cursor belongs to NoticeGap: the events after it follow.
	Cursor *Cursor

	// Code and Reason belong to NoticeLost. Reason is also that of NoticeGap: truncated or epoch.
	Code   int
	Reason string

	// RequestID belongs to NoticeQuestionFailed.
	RequestID string

	// Message is for people.
	Message string
}

func readEvent(params []byte) (*Event, error) {
	var head struct {
		Type      string `json:"type"`
		SessionID string `json:"session_id"`
		TurnID    string `json:"turn_id"`
		Seq       int64  `json:"seq"`
	}
	if err := json.Unmarshal(params, &head); err != nil {
		return nil, err
	}
	var typed GatewayEvent
	if err := json.Unmarshal(params, &typed); err != nil {
		return nil, err
	}
	return &Event{Type: head.Type, SessionID: head.SessionID, TurnID: head.TurnID, Seq: head.Seq, Value: typed.Value, Raw: typed.Raw}, nil
}

// Events are the events from the call of Client.Events on, each once and in order, over all connections.
type Events struct {
	client    *Client
	sessionID string

	mutex   sync.Mutex
	waiting []waitingEvent
	bytes   int
	cursors map[string]Cursor
	isEnded bool
	err     error
	wake    chan struct{}
}

type waitingEvent struct {
	event *Event
	size  int
	epoch string
}

// Events returns the events of a session, or of all sessions for "". Up to 8,192 events or 16 MiB wait to be read; beyond
// that Next fails with an EventsLostError.
func (c *Client) Events(sessionID string) *Events {
	events := &Events{client: c, sessionID: sessionID, cursors: map[string]Cursor{}, wake: make(chan struct{}, 1)}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.state == StateClosed {
		events.end(nil)
		return events
	}
	c.readers[events] = struct{}{}
	return events
}

// Next waits for the next event. It fails with io.EOF when the client or the events are closed, with a ClosedError when an
// error closed the client, with an EventsLostError, or with the error of the context.
func (e *Events) Next(ctx context.Context) (*Event, error) {
	for {
		e.mutex.Lock()
		if len(e.waiting) > 0 {
			next := e.waiting[0]
			e.waiting = e.waiting[1:]
			e.bytes -= next.size
			if next.event.SessionID != "" && next.event.Seq > 0 {
				e.cursors[next.event.SessionID] = Cursor{Epoch: next.epoch, LastSeen: next.event.Seq}
			}
			e.mutex.Unlock()
			return next.event, nil
		}
		isEnded, err := e.isEnded, e.err
		e.mutex.Unlock()
		if isEnded && err == nil {
			err = io.EOF
		}
		if isEnded {
			return nil, err
		}
		select {
		case <-e.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close ends the events.
func (e *Events) Close() {
	e.client.mutex.Lock()
	delete(e.client.readers, e)
	e.client.mutex.Unlock()
	e.end(nil)
}

func (e *Events) end(err error) {
	e.mutex.Lock()
	if !e.isEnded {
		e.isEnded, e.err = true, err
	}
	e.mutex.Unlock()
	e.signal()
}

// add appends an event. It returns false when the events have ended.
func (e *Events) add(event *Event, size int, epoch string) bool {
	e.mutex.Lock()
	if e.isEnded {
		e.mutex.Unlock()
		return false
	}
	e.waiting = append(e.waiting, waitingEvent{event, size, epoch})
	e.bytes += size
	isLost := len(e.waiting) > maxWaitingEvents || e.bytes > maxWaitingBytes
	if isLost {
		e.waiting, e.isEnded, e.err = nil, true, &EventsLostError{Cursors: e.cursors}
	}
	e.mutex.Unlock()
	e.signal()
	return !isLost
}

func (e *Events) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// push passes an event on to its readers. The client's mutex is held.
func (c *Client) push(event *Event, size int) {
	for reader := range c.readers {
		isFor := reader.sessionID == "" || event.SessionID == "" || event.SessionID == reader.sessionID
		if isFor && !reader.add(event, size, c.ready.ReplayEpoch) {
			delete(c.readers, reader)
		}
	}
}

func (c *Client) notify(sessionID string, notice *Notice) {
	c.push(&Event{Type: notice.Kind, SessionID: sessionID, Notice: notice}, noticeBytes)
}

// session is one that this client is attached to, with its last event.
type session struct {
	cursor Cursor
	// isBrief: it closes with the connection, and with the next one.
	isBrief bool
}

// sessionResult has the members of results that concern sessions.
type sessionResult struct {
	SessionID    string `json:"session_id"`
	LatestSeq    int64  `json:"latest_seq"`
	Truncated    bool   `json:"truncated"`
	Epoch        string `json:"epoch"`
	OpenRequests []struct {
		ID     string          `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	} `json:"open_requests"`
}

// isNew returns whether an event is new, and keeps its number. The mutex is held.
func (c *Client) isNew(event *Event) bool {
	if _, isClosed := event.Value.(*SessionClosedEvent); isClosed {
		delete(c.sessions, event.SessionID)
	}
	found, ok := c.sessions[event.SessionID]
	if !ok || event.Seq == 0 {
		return true
	}
	if event.Seq <= found.cursor.LastSeen {
		return false
	}
	found.cursor.LastSeen = event.Seq
	return true
}

// follow updates the sessions after a response; the next frame is read after it. The mutex is held.
func (c *Client) follow(call *pendingCall, data json.RawMessage) {
	var result sessionResult
	_ = json.Unmarshal(data, &result)
	id := result.SessionID
	if id == "" {
		_ = json.Unmarshal(call.params["session_id"], &id)
	}
	switch call.method {
	case "session.create", "session.branch":
		c.sessions[id] = &session{cursor: Cursor{Epoch: c.ready.ReplayEpoch}, isBrief: isTrue(call.params["close_on_disconnect"])}
	case "session.detach", "session.close", "session.delete":
		delete(c.sessions, id)
	case "session.resume", "session.activate":
		c.resumed(call, id, &result)
	}
}

func (c *Client) resumed(call *pendingCall, id string, result *sessionResult) {
	newest := Cursor{Epoch: result.Epoch, LastSeen: result.LatestSeq}
	var asked *Cursor
	_ = json.Unmarshal(call.params["cursor"], &asked)
	known, ok := c.sessions[id]
	if !ok {
		known = &session{}
		c.sessions[id] = known
	}
	known.isBrief = known.isBrief || isTrue(call.params["close_on_disconnect"])
	switch {
	case result.Truncated || (asked == nil && !ok):
		known.cursor = newest
	case asked != nil:
		known.cursor = *asked
	}
	// Without a cursor, an attached session continues where it is: some of its events may still arrive.
	if result.Truncated && call.isOwn {
		reason := "epoch"
		if asked != nil && asked.Epoch == result.Epoch {
			reason = "truncated"
		}
		c.notify(id, &Notice{Kind: NoticeGap, Reason: reason, Cursor: &newest})
	}
	if c.options.Questions == nil {
		return
	}
	for _, request := range result.OpenRequests {
		params, err := json.Marshal(map[string]any{"session_id": id, "payload": request.Params})
		if err == nil {
			c.ask(&question{id: request.ID, method: request.Method, params: params})
		}
	}
}

func isTrue(data json.RawMessage) bool { return string(data) == "true" }
