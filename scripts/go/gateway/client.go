// Package gateway is the client of the agentd gateway: typed calls, events that survive reconnects, and questions as
// functions. It connects over a web socket, or to a child process.
//
// When the connection is cut, the client reconnects and resumes each session after its last event: nothing is lost or
// repeated. What it cannot recover it reports among the events, see Notice.
package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"sync"
	"time"
)

// protocolVersion is the version of the protocol that this client speaks.
const protocolVersion = 1

const (
	readyTimeout = 30 * time.Second
	pingInterval = 15 * time.Second
	// maxSilence is how long a connection without a frame is believed to live.
	maxSilence         = 45 * time.Second
	defaultCallTimeout = 2 * time.Minute
)

// Options of a client.
type Options struct {
	// Transport opens the connections: WebSocket, Spawn, Stdio, or one of your own.
	Transport Transport

	// Name and Version of this program, for the gateway's log.
	Name    string
	Version string

	// Questions answer what the agent asks. With them the gateway sends questions as requests instead of events; without
	// them questions arrive as events, and are answered by calls.
	Questions *Questions

	// FinalOnly asks for whole answers, without deltas.
	FinalOnly bool

	// OptOut lists types of events that the gateway must not send.
	OptOut []string

	// Reconnect bounds what happens after a cut. Default: DefaultReconnect.
	Reconnect *Reconnect

	// CallTimeout bounds a call, including the time to reconnect. Default: 2 minutes.
	CallTimeout time.Duration
}

// Reconnect has the bounds of reconnecting.
type Reconnect struct {
	// First is the first delay. It doubles after each failed attempt. The first attempt is made at once.
	First time.Duration

	// Max is the longest delay.
	Max time.Duration

	// Attempts is how many attempts may fail in a row before the client closes; 0 never reconnects.
	Attempts int
}

// DefaultReconnect is used by a client that names no other.
var DefaultReconnect = Reconnect{First: time.Second, Max: 30 * time.Second, Attempts: 20}

// State of a client.
type State string

// The states of a client.
const (
	StateOpen         State = "open"
	StateReconnecting State = "reconnecting"
	StateClosed       State = "closed"
)

// Client is a connection to a gateway, over as many transport connections as needed. It may be used by several
// goroutines at once.
type Client struct {
	options   Options
	reconnect Reconnect

	mutex     sync.Mutex
	state     State
	ready     GatewayReadyPayload
	current   *connection
	calls     map[string]*pendingCall
	nextCall  int
	sessions  map[string]*session
	readers   map[*Events]struct{}
	questions map[string]*question
	failures  int
	wasOpen   bool

	opened   chan struct{}
	closed   chan struct{}
	closeErr error
}

// Connect connects to a gateway. The context is for the first connection only: Client.Close ends the client.
func Connect(ctx context.Context, options Options) (*Client, error) {
	if options.Transport == nil {
		return nil, errors.New("Options.Transport is missing: name WebSocket, Spawn or Stdio")
	}
	client := &Client{
		options:   options,
		reconnect: DefaultReconnect,
		state:     StateReconnecting,
		calls:     map[string]*pendingCall{},
		sessions:  map[string]*session{},
		readers:   map[*Events]struct{}{},
		questions: map[string]*question{},
		opened:    make(chan struct{}),
		closed:    make(chan struct{}),
	}
	if options.Reconnect != nil {
		client.reconnect = *options.Reconnect
	}
	if client.options.CallTimeout == 0 {
		client.options.CallTimeout = defaultCallTimeout
	}
	go client.run()
	select {
	case <-client.opened:
		return client, nil
	case <-client.closed:
		return nil, client.closeErr
	case <-ctx.Done():
		client.shut(nil)
		return nil, ctx.Err()
	}
}

// Ready returns what the gateway said about itself at the start of the last connection.
func (c *Client) Ready() GatewayReadyPayload {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.ready
}

// State returns whether the client is connected.
func (c *Client) State() State {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.state
}

// Closed returns a channel that is closed with the client.
func (c *Client) Closed() <-chan struct{} { return c.closed }

// Cursor returns the last event of a session; nil when this client is not attached to it.
func (c *Client) Cursor(sessionID string) *Cursor {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if found, ok := c.sessions[sessionID]; ok {
		cursor := found.cursor
		return &cursor
	}
	return nil
}

// Close closes the connection. Sessions and turns continue.
func (c *Client) Close() error {
	c.shut(nil)
	return nil
}

// run connects, and reconnects whenever the connection has ended.
func (c *Client) run() {
	for {
		started := time.Now()
		err := c.serve()
		c.mutex.Lock()
		if c.state == StateClosed {
			c.mutex.Unlock()
			return
		}
		isShort := c.current == nil || !c.current.wasOpen || time.Since(started) < c.reconnect.First
		// A very short connection counts as failed; otherwise a crashing gateway would be contacted without a delay.
		if isShort {
			c.failures++
		} else {
			c.failures = 0
		}
		failures := c.failures
		isLast := isPermanent(err) || !c.wasOpen || failures > c.reconnect.Attempts || c.reconnect.Attempts == 0
		if !isLast {
			c.become(StateReconnecting, err)
		}
		c.mutex.Unlock()
		if isLast {
			c.shut(err)
			return
		}
		timer := time.NewTimer(c.delay(failures))
		select {
		case <-timer.C:
		case <-c.closed:
			timer.Stop()
			return
		}
	}
}

// delay is spread, so that clients that were cut together do not reconnect together.
func (c *Client) delay(failures int) time.Duration {
	if failures == 0 {
		return time.Duration(rand.Float64() / 4 * float64(c.reconnect.First))
	}
	wait := c.reconnect.First
	for ; failures > 1 && wait < c.reconnect.Max; failures-- {
		wait *= 2
	}
	if wait > c.reconnect.Max {
		wait = c.reconnect.Max
	}
	return time.Duration(float64(wait) * (1 + rand.Float64()) / 2)
}

// serve runs one connection and returns why it ended.
func (c *Client) serve() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	go func() {
		select {
		case <-c.closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	link, err := c.options.Transport.Open(ctx)
	if err != nil {
		c.mutex.Lock()
		c.current = nil
		c.mutex.Unlock()
		return err
	}
	conn := newConnection(link)
	c.mutex.Lock()
	isClosed := c.state == StateClosed
	c.current = conn
	c.mutex.Unlock()
	if isClosed {
		_ = link.Close()
	}
	go c.read(conn)
	refusal := c.setUp(ctx, conn)
	if refusal != nil {
		conn.end(refusal)
	}
	<-conn.cut
	if refused, ok := refusal.(*Error); ok {
		return refused
	}
	return conn.err
}

// setUp introduces the client and resumes its sessions.
func (c *Client) setUp(ctx context.Context, conn *connection) error {
	select {
	case <-conn.ready:
	case <-conn.cut:
		return conn.err
	case <-ctx.Done():
		return &TransportError{Message: "the gateway is not ready", Err: ctx.Err()}
	}
	capabilities := map[string]any{
		"protocol_version": protocolVersion,
		"server_requests":  c.options.Questions != nil,
		"events":           map[string]any{"opt_out": append([]string{}, c.options.OptOut...)},
	}
	if c.options.Name != "" {
		capabilities["client"] = map[string]string{"name": c.options.Name, "version": c.options.Version}
	}
	if c.options.FinalOnly {
		capabilities["events"].(map[string]any)["deltas"] = "final"
	}
	if _, err := c.callOwn(ctx, conn, "client.capabilities", capabilities); err != nil {
		return err
	}
	c.mutex.Lock()
	ids := make([]string, 0, len(c.sessions))
	for id := range c.sessions {
		ids = append(ids, id)
	}
	c.mutex.Unlock()
	for _, id := range ids {
		if err := c.attachAgain(ctx, conn, id); err != nil {
			return err
		}
	}
	c.open(conn)
	return nil
}

// attachAgain resumes a session of the last connection where it stopped.
func (c *Client) attachAgain(ctx context.Context, conn *connection, id string) error {
	c.mutex.Lock()
	found, ok := c.sessions[id]
	if !ok {
		c.mutex.Unlock()
		return nil
	}
	params := map[string]any{
		"session_id":          id,
		"omit_messages":       true,
		"close_on_disconnect": found.isBrief,
		"cursor":              found.cursor,
	}
	c.mutex.Unlock()
	result, err := c.callOwn(ctx, conn, "session.resume", params)
	stillOpen := map[string]bool{}
	if err != nil {
		var refused *Error
		if !errors.As(err, &refused) || refused.Retryable {
			return err
		}
		// The session does not exist any more; other failures are those of the connection.
		c.mutex.Lock()
		delete(c.sessions, id)
		c.notify(id, &Notice{Kind: NoticeLost, Code: refused.Code, Reason: refused.Reason, Message: refused.Message})
		c.mutex.Unlock()
	} else {
		var live sessionResult
		_ = json.Unmarshal(result, &live)
		for _, request := range live.OpenRequests {
			stillOpen[request.ID] = true
		}
	}
	c.mutex.Lock()
	c.keepQuestions(id, stillOpen, conn)
	c.mutex.Unlock()
	return nil
}

func (c *Client) open(conn *connection) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if conn.isCut() || c.state == StateClosed {
		return
	}
	conn.wasOpen = true
	if !c.wasOpen {
		c.wasOpen = true
		close(c.opened)
	}
	c.become(StateOpen, nil)
	for _, call := range c.calls {
		if !call.isSent {
			c.send(conn, call)
		}
	}
}

// become changes the state. The mutex is held.
func (c *Client) become(state State, err error) {
	c.state = state
	notice := &Notice{Kind: NoticeState, State: state, Attempt: c.failures}
	if err != nil {
		notice.Message = err.Error()
	}
	c.notify("", notice)
}

func (c *Client) shut(err error) {
	c.mutex.Lock()
	if c.state == StateClosed {
		c.mutex.Unlock()
		return
	}
	c.become(StateClosed, err)
	closed := &ClosedError{Err: err}
	c.closeErr = closed
	if err != nil {
		c.closeErr = err
	}
	c.cutCalls(nil, closed)
	for id := range c.questions {
		c.withdraw(id)
	}
	var failure error
	if err != nil {
		failure = closed
	}
	for reader := range c.readers {
		reader.end(failure)
	}
	conn := c.current
	close(c.closed)
	c.mutex.Unlock()
	if conn != nil {
		_ = conn.link.Close()
	}
}

// read takes the frames of a connection until it ends.
func (c *Client) read(conn *connection) {
	for {
		data, err := conn.link.Read()
		if err == nil {
			err = c.frame(conn, data)
		}
		if err != nil {
			_ = conn.link.Close()
			conn.end(err)
			c.mutex.Lock()
			c.cutCalls(conn, err)
			c.mutex.Unlock()
			return
		}
	}
}

// frame handles one frame in order: a response determines how the following frames are read.
func (c *Client) frame(conn *connection, data []byte) error {
	var frame struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
		Result json.RawMessage `json:"result"`
		Error  *wireError      `json:"error"`
	}
	if err := json.Unmarshal(data, &frame); err != nil {
		return &TransportError{Message: "the gateway sent a frame that is not JSON", Err: err}
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	conn.heard = time.Now()
	var id string
	_ = json.Unmarshal(frame.ID, &id)
	switch {
	case conn.isCut():
	case frame.Method == "event":
		return c.event(conn, frame.Params)
	case frame.Method != "":
		c.ask(&question{id: id, method: frame.Method, params: frame.Params, on: conn})
	case id != "":
		c.answered(conn, id, frame.Result, frame.Error)
	}
	return nil
}

func (c *Client) event(conn *connection, params []byte) error {
	event, err := readEvent(params)
	if err != nil {
		return &TransportError{Message: "the gateway sent an event that cannot be read", Err: err}
	}
	switch value := event.Value.(type) {
	case *GatewayReadyEvent:
		c.ready = value.Payload
		if value.Payload.Protocol.MinVersion > protocolVersion {
			return &TransportError{Message: "the gateway needs a newer client", IsPermanent: true}
		}
		if value.Payload.Heartbeat {
			go c.beat(conn)
		}
		conn.readyOnce.Do(func() { close(conn.ready) })
	case *RequestCancelEvent:
		c.withdraw(value.Payload.ID)
	}
	if c.isNew(event) {
		c.push(event, len(params))
	}
	return nil
}

// beat sends pings, and ends a connection that is silent, whatever its state.
func (c *Client) beat(conn *connection) {
	ticker := time.NewTicker(pingInterval)
	defer ticker.Stop()
	for {
		select {
		case <-conn.cut:
			return
		case <-ticker.C:
		}
		c.mutex.Lock()
		silence := time.Since(conn.heard)
		c.mutex.Unlock()
		if silence >= maxSilence {
			conn.end(&TransportError{Message: "the gateway is silent"})
			return
		}
		_ = conn.write(map[string]string{"jsonrpc": "2.0", "id": "ping", "method": "gateway.ping"})
	}
}

// connection is one connection of the transport.
type connection struct {
	link      Link
	ready     chan struct{}
	readyOnce sync.Once
	cut       chan struct{}
	cutOnce   sync.Once
	err       error
	heard     time.Time
	wasOpen   bool

	writing sync.Mutex
	waiting [][]byte
	wake    chan struct{}
}

func newConnection(link Link) *connection {
	conn := &connection{link: link, ready: make(chan struct{}), cut: make(chan struct{}), heard: time.Now(), wake: make(chan struct{}, 1)}
	go conn.writeAll()
	return conn
}

func (n *connection) isCut() bool {
	select {
	case <-n.cut:
		return true
	default:
		return false
	}
}

// end marks the connection as cut, and closes it.
func (n *connection) end(err error) {
	n.cutOnce.Do(func() {
		n.err = err
		if _, known := err.(*TransportError); !known && !errors.As(err, new(*Error)) {
			n.err = &TransportError{Message: "the connection ended", Err: err}
		}
		close(n.cut)
		_ = n.link.Close()
	})
}

// write queues a frame. It never waits for the gateway, which may itself wait for this client to read.
func (n *connection) write(frame any) error {
	data, err := json.Marshal(frame)
	if err != nil {
		return fmt.Errorf("the parameters cannot be written as JSON: %w", err)
	}
	n.writing.Lock()
	n.waiting = append(n.waiting, data)
	n.writing.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
	return nil
}

// writeAll writes the queued frames in order. A failure to write ends the connection.
func (n *connection) writeAll() {
	for {
		select {
		case <-n.cut:
			return
		case <-n.wake:
		}
		n.writing.Lock()
		frames := n.waiting
		n.waiting = nil
		n.writing.Unlock()
		for _, frame := range frames {
			if err := n.link.Write(frame); err != nil {
				n.end(err)
				return
			}
		}
	}
}
