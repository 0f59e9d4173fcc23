package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/agentd/agentd-go/internal/websocket"
)

// maxFrameBytes bounds a frame; no gateway sends a larger one.
const maxFrameBytes = 64 << 20

// endTimeout is how long a child process may take to exit after its input was closed.
const endTimeout = 8 * time.Second

// Transport opens connections to a gateway, one after the other.
type Transport interface {
	// Open opens a connection. It fails with a TransportError.
	Open(ctx context.Context) (Link, error)
}

// Link is an open connection.
type Link interface {
	// Read returns the next frame, which is one JSON value. Its errors are final.
	Read() ([]byte, error)

	// Write sends one JSON value. It may be called by several goroutines.
	Write(frame []byte) error

	// Close ends the connection; Read then fails.
	Close() error
}

// WebSocket connects to a gateway at an address.
type WebSocket struct {
	// URL has the scheme http, https, ws or wss. Without a path: /api/ws.
	URL string

	// Token is an API key. It is sent in the query, since that is where the gateway reads it.
	Token string

	// Ticket returns a ticket for each connection, in place of the key: see Client.CreateSocketTicket of package agentd.
	Ticket func(ctx context.Context) (string, error)

	// TLS replaces the configuration of encrypted connections.
	TLS *tls.Config
}

// Open implements Transport.
func (w WebSocket) Open(ctx context.Context) (Link, error) {
	target, err := url.Parse(strings.Replace(w.URL, "http", "ws", 1))
	if err != nil || target.Host == "" || (target.Scheme != "ws" && target.Scheme != "wss") {
		return nil, &TransportError{Message: "the URL of the gateway is not one such as http://127.0.0.1:8642", IsPermanent: true}
	}
	if target.Path == "" || target.Path == "/" {
		target.Path = "/api/ws"
	}
	query := target.Query()
	if w.Ticket != nil {
		ticket, err := w.Ticket(ctx)
		if err != nil {
			return nil, &TransportError{Message: "no ticket for the gateway", Err: err}
		}
		query.Set("ticket", ticket)
	} else if w.Token != "" {
		query.Set("token", w.Token)
	}
	target.RawQuery = query.Encode()
	conn, err := websocket.Dial(ctx, target, w.TLS, maxFrameBytes)
	if err != nil {
		var refused *websocket.HandshakeError
		isPermanent := errors.As(err, &refused) && (refused.Status == 401 || refused.Status == 403 || refused.Status == 404)
		return nil, &TransportError{Message: "cannot connect to " + target.Host, IsPermanent: isPermanent, Err: err}
	}
	return &socketLink{conn, target.Host}, nil
}

type socketLink struct {
	*websocket.Conn
	host string
}

// Read implements Link. The gateway closes with 4401 and 4403 for a key that it does not accept.
func (l *socketLink) Read() ([]byte, error) {
	frame, err := l.Conn.Read()
	if err == nil {
		return frame, nil
	}
	var closed *websocket.CloseError
	isPermanent := errors.As(err, &closed) && (closed.Code == 4401 || closed.Code == 4403)
	return nil, &TransportError{Message: "the connection to " + l.host + " ended", IsPermanent: isPermanent, Err: err}
}

// Spawn starts a child process for each connection, whose standard input and output carry the frames.
type Spawn struct {
	// Command is the program. Default: agentd.
	Command string

	// Args are its arguments. Default: rpc.
	Args []string

	// Env is its whole environment. Default: that of this process.
	Env []string

	// Dir is the folder that it starts in. Default: that of this process.
	Dir string

	// OnStderr receives each line of its standard error.
	OnStderr func(line string)
}

// Open implements Transport.
func (s Spawn) Open(context.Context) (Link, error) {
	command, args := s.Command, s.Args
	if command == "" {
		command = "agentd"
	}
	if args == nil {
		args = []string{"rpc"}
	}
	child := exec.Command(command, args...)
	child.Env, child.Dir = s.Env, s.Dir
	link := &processLink{child: child, exited: make(chan struct{})}
	link.stderr.onLine = s.OnStderr
	child.Stderr = &link.stderr
	input, err := child.StdinPipe()
	if err != nil {
		return nil, &TransportError{Message: "cannot start " + command, Err: err}
	}
	output, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		return nil, &TransportError{Message: "cannot start " + command, IsPermanent: true, Err: err}
	}
	link.pipe = newPipe(output, input)
	return link, nil
}

type processLink struct {
	*pipe
	child  *exec.Cmd
	stderr lineWriter
	exited chan struct{}
	once   sync.Once
}

// Read implements Link.
func (l *processLink) Read() ([]byte, error) {
	frame, err := l.pipe.Read()
	if err == nil {
		return frame, nil
	}
	l.once.Do(func() {
		if err != io.EOF {
			_ = l.child.Process.Kill()
		}
		_ = l.child.Wait()
		close(l.exited)
	})
	return nil, &TransportError{Message: fmt.Sprintf("%s ended: %s. %s", l.child.Path, l.child.ProcessState, l.stderr.last()), Err: nil}
}

// Close implements Link. A process that does not exit is killed.
func (l *processLink) Close() error {
	err := l.pipe.Close()
	go func() {
		timer := time.NewTimer(endTimeout)
		defer timer.Stop()
		select {
		case <-l.exited:
		case <-timer.C:
			_ = l.child.Process.Kill()
		}
	}()
	return err
}

// Stdio uses two pipes, which last for one connection.
type Stdio struct {
	// Reader is the output of the gateway.
	Reader io.Reader

	// Writer is its input.
	Writer io.WriteCloser

	mutex  sync.Mutex
	isUsed bool
}

// Open implements Transport.
func (s *Stdio) Open(context.Context) (Link, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.isUsed {
		return nil, &TransportError{Message: "the pipes have ended", IsPermanent: true}
	}
	s.isUsed = true
	return newPipe(s.Reader, s.Writer), nil
}

// pipe carries one frame a line.
type pipe struct {
	reader  *bufio.Reader
	writer  io.WriteCloser
	writing sync.Mutex
}

func newPipe(reader io.Reader, writer io.WriteCloser) *pipe {
	return &pipe{reader: bufio.NewReaderSize(reader, 64<<10), writer: writer}
}

// Read implements Link.
func (p *pipe) Read() ([]byte, error) {
	for {
		var line []byte
		for {
			piece, err := p.reader.ReadSlice('\n')
			line = append(line, piece...)
			if err == nil {
				break
			}
			if err != bufio.ErrBufferFull {
				return nil, err
			}
			if len(line) > maxFrameBytes {
				return nil, fmt.Errorf("a line of more than %d bytes", maxFrameBytes)
			}
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}

// Write implements Link.
func (p *pipe) Write(frame []byte) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	_, err := p.writer.Write(append(append([]byte(nil), frame...), '\n'))
	return err
}

// Close implements Link.
func (p *pipe) Close() error { return p.writer.Close() }

// lineWriter passes on lines and keeps the last one.
type lineWriter struct {
	onLine  func(string)
	mutex   sync.Mutex
	partial []byte
	newest  string
}

// Write implements io.Writer.
func (w *lineWriter) Write(data []byte) (int, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.partial = append(w.partial, data...)
	for {
		at := bytes.IndexByte(w.partial, '\n')
		if at < 0 {
			break
		}
		w.newest = string(w.partial[:at])
		w.partial = w.partial[at+1:]
		if w.onLine != nil {
			w.onLine(w.newest)
		}
	}
	if len(w.partial) > 64<<10 {
		w.partial = nil
	}
	return len(data), nil
}

func (w *lineWriter) last() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if len(w.newest) > 500 {
		return w.newest[:500]
	}
	return w.newest
}
