package agentd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/agentd/agentd-go/internal/wire"
)

// steady is how long a connection must have lived for the failures before it to be forgotten.
const steady = 10 * time.Second

// streamClosed is the comment with which the server ends a stream that has no closing event.
const streamClosed = "stream closed"

// streamKind is how streams of an operation end and are resumed.
type streamKind struct {
	// terminator is the data of the frame that ends it; empty when it ends by closing.
	terminator string
	// endless streams go on until their reader leaves: every end is a cut.
	endless bool
	// tag is the member that names the kind of an event; after the final kinds nothing follows.
	tag   string
	final []string
	// cursorHeader or cursorQuery is the parameter that resumes it; both are empty when nothing can.
	cursorHeader string
	cursorQuery  string
	// cursorMember is the member that numbers an event; empty when the id of its frame does.
	cursorMember string
}

// Stream yields the events of an operation, over as many connections as needed:
//
//	for stream.Next() {
//		event := stream.Event()
//	}
//	if err := stream.Err(); err != nil {
//	}
//
// The request is sent by the first Next. Leave early by Close, or by ending the context that the stream was made with. A
// stream is for one goroutine.
type Stream[T any] struct {
	client  *Client
	request *request
	kind    streamKind
	options *callOptions
	ctx     context.Context

	connection *connection
	header     http.Header
	openedAt   time.Time
	failures   int
	opening    int
	cursor     string
	serverWait time.Duration
	event      T
	done       bool
	err        error
}

// connection is one answer to the request of a stream.
type connection struct {
	cancel context.CancelFunc
	body   io.Closer
	reader *sseReader
	quiet  *quietBody
}

func newStream[T any](ctx context.Context, c *Client, r *request, kind streamKind, options []RequestOption) *Stream[T] {
	return &Stream[T]{client: c, request: r, kind: kind, options: readOptions(options), ctx: ctx}
}

// Next waits for the next event. It returns false at the end of the stream, and after an error.
func (s *Stream[T]) Next() bool {
	for !s.done {
		found, err := s.read()
		if err == nil && found {
			return true
		}
		if err == nil {
			continue
		}
		s.disconnect()
		if s.ctx.Err() != nil {
			return s.fail(s.ctx.Err())
		}
		wait, fatal := s.failed(err)
		if fatal == nil {
			fatal = sleep(s.ctx, wait)
		}
		if fatal != nil {
			return s.fail(fatal)
		}
	}
	s.disconnect()
	return false
}

// Event returns the event that the last Next found.
func (s *Stream[T]) Event() T { return s.event }

// Err returns why the stream ended; nil after its regular end and after Close.
func (s *Stream[T]) Err() error { return s.err }

// Close ends the stream. What happens to its run is for the server to decide.
func (s *Stream[T]) Close() error {
	s.done = true
	s.disconnect()
	return nil
}

// RunID returns the run behind the stream, once the server has answered.
func (s *Stream[T]) RunID() string { return s.Header("X-Agent-Run-Id") }

// SessionID returns the session of that run.
func (s *Stream[T]) SessionID() string { return s.Header("X-Agent-Session-Id") }

// Header returns a header of the newest answer.
func (s *Stream[T]) Header(name string) string { return s.header.Get(name) }

// Cursor returns where the stream stands: its operation resumes there. It is empty before the first event with a number.
func (s *Stream[T]) Cursor() string { return s.cursor }

func (s *Stream[T]) fail(err error) bool {
	s.done, s.err = true, err
	s.disconnect()
	return false
}

// read takes one frame. It returns false when the frame is no event.
func (s *Stream[T]) read() (bool, error) {
	if s.connection == nil {
		if err := s.connect(); err != nil {
			return false, err
		}
	}
	frame, err := s.connection.reader.next()
	if err != nil {
		return false, s.ended(err)
	}
	s.serverWait = s.connection.reader.retry
	if s.kind.terminator != "" && frame.data == s.kind.terminator {
		s.done = true
		return false, nil
	}
	return true, s.take(frame)
}

func (s *Stream[T]) take(frame sseFrame) error {
	data := []byte(frame.data)
	if strings.HasPrefix(strings.TrimLeft(frame.data, " \t"), `{"error"`) {
		var envelope map[string]json.RawMessage
		if json.Unmarshal(data, &envelope) == nil && len(envelope) == 1 {
			return apiError(envelope["error"], 0, s.header)
		}
	}
	event, err := readJSON[T](data)
	if err != nil {
		return err
	}
	s.failures = 0
	s.event = *event
	if s.kind.cursorMember == "" && frame.id != "" {
		s.cursor = frame.id
	}
	if s.kind.cursorMember != "" {
		if cursor := wire.Member(data, s.kind.cursorMember); cursor != "" {
			s.cursor = cursor
		}
	}
	if s.kind.tag != "" {
		tag := wire.Member(data, s.kind.tag)
		for _, final := range s.kind.final {
			s.done = s.done || tag == final
		}
	}
	return nil
}

// ended handles the end of a connection: nil when it was the end of the stream.
func (s *Stream[T]) ended(err error) error {
	if err != io.EOF {
		if _, isProtocol := err.(*ProtocolError); isProtocol {
			return err
		}
		return &ConnectionError{IsTimeout: s.connection.quiet.isOver(), Err: err}
	}
	closes := s.kind.terminator == "" && !s.kind.endless
	if closes && (s.connection.reader.comment == streamClosed || len(s.kind.final) == 0) {
		s.done = true
		return nil
	}
	return s.cut(errEnded)
}

func (s *Stream[T]) cut(reason error) error {
	return &StreamCutError{RunID: s.RunID(), SessionID: s.SessionID(), LastEventID: s.cursor, Err: reason}
}

// failed returns the wait before the next connection, or the error that ends the stream.
func (s *Stream[T]) failed(err error) (time.Duration, error) {
	policy := s.client.retry
	if s.request.err != nil {
		return 0, s.request.err
	}
	if s.header == nil {
		s.opening++
		if !s.request.repeatable(s.options) || s.opening > policy.MaxRetries || !policy.passes(err) {
			return 0, err
		}
		return policy.delay(s.opening, askedWait(err)), nil
	}
	if !policy.passes(err) {
		return 0, err
	}
	if !s.openedAt.IsZero() && time.Since(s.openedAt) >= steady {
		s.failures = 0
	}
	s.openedAt = time.Time{}
	s.failures++
	isResumable := s.request.method == http.MethodGet && s.kind.cursorHeader+s.kind.cursorQuery != ""
	if !isResumable || s.failures > policy.MaxReconnects {
		if _, isCut := err.(*StreamCutError); isCut {
			return 0, err
		}
		return 0, s.cut(err)
	}
	asked := askedWait(err)
	if asked == 0 {
		asked = s.serverWait
	}
	return policy.delay(s.failures, asked), nil
}

func (s *Stream[T]) connect() error {
	silence := s.client.streamTimeout
	if s.options.timeout > 0 {
		silence = s.options.timeout
	}
	s.resume()
	ctx, cancel := context.WithCancel(s.ctx)
	// The first answer may take as long as that of any other call.
	timer := time.AfterFunc(s.client.timeout, cancel)
	response, err := s.client.open(ctx, s.request, s.options)
	timer.Stop()
	if err != nil {
		cancel()
		return err
	}
	if response.StatusCode != http.StatusOK {
		defer cancel()
		defer response.Body.Close()
		content, err := readBody(response.Body)
		if err != nil {
			return err
		}
		return errorOf(response.StatusCode, response.Header, content)
	}
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		cancel()
		_ = response.Body.Close()
		return &ProtocolError{Message: fmt.Sprintf("the answer of %s is not a stream of events", s.request.path)}
	}
	quiet := newQuietBody(response.Body, silence, cancel)
	s.connection = &connection{cancel: cancel, body: response.Body, reader: newSSEReader(quiet), quiet: quiet}
	s.header, s.openedAt = response.Header, time.Now()
	return nil
}

// resume makes the request go on after the last event.
func (s *Stream[T]) resume() {
	if s.cursor == "" {
		return
	}
	if s.kind.cursorHeader != "" {
		s.request.header.Set(s.kind.cursorHeader, s.cursor)
		s.options.header.Del(s.kind.cursorHeader)
	} else if s.kind.cursorQuery != "" {
		s.request.values.Set(s.kind.cursorQuery, s.cursor)
	}
}

func (s *Stream[T]) disconnect() {
	if s.connection == nil {
		return
	}
	s.connection.quiet.stop()
	s.connection.cancel()
	_ = s.connection.body.Close()
	s.connection = nil
}

// quietBody ends a connection that is silent for too long.
type quietBody struct {
	body    io.Reader
	silence time.Duration
	timer   *time.Timer
	mutex   sync.Mutex
	over    bool
}

func newQuietBody(body io.Reader, silence time.Duration, cancel func()) *quietBody {
	quiet := &quietBody{body: body, silence: silence}
	quiet.timer = time.AfterFunc(silence, func() {
		quiet.mutex.Lock()
		quiet.over = true
		quiet.mutex.Unlock()
		cancel()
	})
	return quiet
}

// Read implements io.Reader. Only the server's silence counts, not the time that its reader takes.
func (q *quietBody) Read(into []byte) (int, error) {
	q.timer.Reset(q.silence)
	defer q.timer.Stop()
	return q.body.Read(into)
}

func (q *quietBody) isOver() bool {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return q.over
}

func (q *quietBody) stop() { q.timer.Stop() }
