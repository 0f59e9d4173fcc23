package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// CallOption changes one call.
type CallOption func(*callOptions)

type callOptions struct{ timeout time.Duration }

// WithTimeout replaces Options.CallTimeout. The end of a call's time does not cancel what it started.
func WithTimeout(timeout time.Duration) CallOption {
	return func(o *callOptions) { o.timeout = timeout }
}

// pendingCall is a call without a response.
type pendingCall struct {
	id     string
	method string
	params map[string]json.RawMessage
	// isOwn: the client itself makes the call; it ends with its connection.
	isOwn  bool
	isSent bool
	done   chan struct{}
	result json.RawMessage
	err    error
}

type callFrame struct {
	JSONRPC string                     `json:"jsonrpc"`
	ID      string                     `json:"id"`
	Method  string                     `json:"method"`
	Params  map[string]json.RawMessage `json:"params"`
}

func (p *pendingCall) settle(result json.RawMessage, err error) {
	p.result, p.err = result, err
	close(p.done)
}

// Call calls any method of the gateway and returns its result. It waits during a reconnect. When the connection is cut
// during the call, calls that only read and prompt.submit are sent again; the others fail with a CutError, since their
// outcome is unknown. It fails with an Error for an error response, and with a ClosedError.
func (c *Client) Call(ctx context.Context, method string, params any, options ...CallOption) (json.RawMessage, error) {
	settings := callOptions{timeout: c.options.CallTimeout}
	for _, option := range options {
		option(&settings)
	}
	fields, err := fieldsOf(params)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, settings.timeout)
	defer cancel()
	if method == "prompt.submit" {
		if err := c.attachFirst(ctx, fields); err != nil {
			return nil, err
		}
	}
	c.mutex.Lock()
	if c.state == StateClosed {
		c.mutex.Unlock()
		return nil, c.closeErr
	}
	if limit := c.ready.Limits.MaxFrameBytes; limit > 0 && int64(sizeOf(fields)) > limit {
		c.mutex.Unlock()
		// The gateway would close the connection each time the call is repeated.
		return nil, &Error{Code: -32600, Reason: "frame_too_large", Message: fmt.Sprintf("the frame exceeds %d bytes", limit)}
	}
	call := c.add(method, fields, false)
	if c.state == StateOpen && !c.current.isCut() {
		c.send(c.current, call)
	}
	c.mutex.Unlock()
	return c.wait(ctx, call)
}

// attachFirst attaches to the session before its turn begins, so that no event of it is missed, and names the turn, so
// that it can be sent twice.
func (c *Client) attachFirst(ctx context.Context, fields map[string]json.RawMessage) error {
	var id string
	_ = json.Unmarshal(fields["session_id"], &id)
	if c.Cursor(id) == nil {
		_, err := c.Call(ctx, "session.activate", map[string]any{"session_id": id, "omit_messages": true})
		var refused *Error
		// A problem with the session becomes the response to the submit itself.
		if err != nil && (!errors.As(err, &refused) || refused.Retryable) {
			return err
		}
	}
	if _, named := fields["client_turn_id"]; !named {
		var name [16]byte
		if _, err := rand.Read(name[:]); err != nil {
			return err
		}
		fields["client_turn_id"], _ = json.Marshal(hex.EncodeToString(name[:]))
	}
	return nil
}

// callOwn makes a call of the client itself during the setup of a connection.
func (c *Client) callOwn(ctx context.Context, conn *connection, method string, params any) (json.RawMessage, error) {
	fields, err := fieldsOf(params)
	if err != nil {
		return nil, err
	}
	c.mutex.Lock()
	call := c.add(method, fields, true)
	c.send(conn, call)
	c.mutex.Unlock()
	return c.wait(ctx, call)
}

// add registers a call. The mutex is held.
func (c *Client) add(method string, params map[string]json.RawMessage, isOwn bool) *pendingCall {
	c.nextCall++
	call := &pendingCall{id: fmt.Sprintf("c%d", c.nextCall), method: method, params: params, isOwn: isOwn, done: make(chan struct{})}
	c.calls[call.id] = call
	return call
}

// send writes a call. A failure to write shows as a cut. The mutex is held, so that frames keep their order.
func (c *Client) send(conn *connection, call *pendingCall) {
	call.isSent = true
	if err := conn.write(callFrame{JSONRPC: "2.0", ID: call.id, Method: call.method, Params: call.params}); err != nil {
		go conn.end(err)
	}
}

func (c *Client) wait(ctx context.Context, call *pendingCall) (json.RawMessage, error) {
	select {
	case <-call.done:
		return call.result, call.err
	case <-ctx.Done():
		c.mutex.Lock()
		defer c.mutex.Unlock()
		delete(c.calls, call.id)
		return nil, fmt.Errorf("%s: %w", call.method, ctx.Err())
	}
}

// answered settles a call and follows what its response says about sessions. The mutex is held.
func (c *Client) answered(conn *connection, id string, result json.RawMessage, failure *wireError) {
	call, ok := c.calls[id]
	if !ok {
		return
	}
	delete(c.calls, id)
	if failure != nil {
		call.settle(nil, failure.typed())
		return
	}
	c.follow(call, result)
	call.settle(result, nil)
}

// cutCalls handles a cut connection: repeatable calls wait for the next one, unless the client is closed (conn is nil).
func (c *Client) cutCalls(conn *connection, reason error) {
	for id, call := range c.calls {
		isLast := conn == nil
		switch {
		case !isLast && !call.isOwn && isRepeatable(call.method):
			call.isSent = false
			continue
		case call.isSent:
			call.settle(nil, &CutError{Method: call.method, Err: reason})
		case isLast:
			call.settle(nil, reason)
		default:
			continue
		}
		delete(c.calls, id)
	}
}

// call makes a typed call whose result is an object.
func call[T any](ctx context.Context, c *Client, method string, params any, options []CallOption) (*T, error) {
	result, err := c.Call(ctx, method, params, options...)
	if err != nil {
		return nil, err
	}
	return decode[T](result)
}

// callValue makes a typed call whose result is any other JSON.
func callValue[T any](ctx context.Context, c *Client, method string, params any, options []CallOption) (T, error) {
	found, err := call[T](ctx, c, method, params, options)
	if err != nil {
		var none T
		return none, err
	}
	return *found, nil
}

func fieldsOf(params any) (map[string]json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	if params == nil {
		return fields, nil
	}
	data, err := json.Marshal(params)
	if err == nil {
		err = json.Unmarshal(data, &fields)
	}
	if err != nil {
		return nil, fmt.Errorf("the parameters cannot be written as JSON: %w", err)
	}
	return fields, nil
}

func sizeOf(fields map[string]json.RawMessage) int {
	size := 128
	for name, value := range fields {
		size += len(name) + len(value) + 4
	}
	return size
}
