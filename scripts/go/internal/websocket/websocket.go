// Package websocket is a client of web sockets (RFC 6455) for text messages, without extensions.
package websocket

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Close codes of RFC 6455, 7.4.1.
const (
	CloseNormal      = 1000
	CloseProtocol    = 1002
	CloseUnsupported = 1003
	CloseNone        = 1005
	CloseInvalid     = 1007
	CloseTooLarge    = 1009
)

const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xA

	keyGUID           = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
	maxControlBytes   = 125
	handshakeMaxBytes = 64 << 10
	writeTimeout      = 30 * time.Second
	closeTimeout      = 5 * time.Second
)

// CloseError means that the connection was closed with a code.
type CloseError struct {
	// Code is the close code; CloseNone when the server gave none.
	Code int

	// Reason is the server's text.
	Reason string
}

// Error implements error.
func (e *CloseError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("the socket was closed with code %d", e.Code)
	}
	return fmt.Sprintf("the socket was closed with code %d: %s", e.Code, e.Reason)
}

// HandshakeError means that the server did not open a web socket.
type HandshakeError struct {
	// Status is the HTTP status of the answer.
	Status int

	// Message says what is wrong.
	Message string
}

// Error implements error.
func (e *HandshakeError) Error() string { return e.Message }

// Conn is an open connection. One goroutine may read while others write.
type Conn struct {
	socket   net.Conn
	reader   *bufio.Reader
	maxBytes int
	writing  sync.Mutex
	isClosed bool
}

// Dial opens a connection to a ws: or wss: address. Messages of more than maxBytes are refused.
func Dial(ctx context.Context, target *url.URL, config *tls.Config, maxBytes int) (*Conn, error) {
	socket, err := dial(ctx, target, config)
	if err != nil {
		return nil, err
	}
	// The end of the context ends the handshake.
	finished, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-ctx.Done():
			_ = socket.SetDeadline(time.Unix(1, 0))
		case <-finished:
		}
	}()
	conn, err := handshake(socket, target, maxBytes)
	close(finished)
	// A context that ends after the handshake must not reach the open connection.
	<-stopped
	if err == nil {
		err = socket.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = socket.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return conn, nil
}

func dial(ctx context.Context, target *url.URL, config *tls.Config) (net.Conn, error) {
	port := target.Port()
	if port == "" {
		port = map[string]string{"ws": "80", "wss": "443"}[target.Scheme]
	}
	var dialer net.Dialer
	socket, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(target.Hostname(), port))
	if err != nil || target.Scheme != "wss" {
		return socket, err
	}
	own := &tls.Config{}
	if config != nil {
		own = config.Clone()
	}
	if own.ServerName == "" {
		own.ServerName = target.Hostname()
	}
	secure := tls.Client(socket, own)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = socket.Close()
		return nil, err
	}
	return secure, nil
}

func handshake(socket net.Conn, target *url.URL, maxBytes int) (*Conn, error) {
	var nonce [16]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return nil, err
	}
	key := base64.StdEncoding.EncodeToString(nonce[:])
	request := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n\r\n", target.RequestURI(), target.Host, key)
	if _, err := io.WriteString(socket, request); err != nil {
		return nil, err
	}
	limited := &io.LimitedReader{R: socket, N: handshakeMaxBytes}
	reader := bufio.NewReader(limited)
	response, err := http.ReadResponse(reader, &http.Request{Method: http.MethodGet})
	if err != nil {
		return nil, &HandshakeError{Message: "the server does not answer in HTTP/1.1: " + err.Error()}
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return nil, &HandshakeError{Status: response.StatusCode, Message: "the server answered " + response.Status + " instead of opening a web socket"}
	}
	digest := sha1.Sum([]byte(key + keyGUID))
	header := response.Header
	if !strings.EqualFold(header.Get("Upgrade"), "websocket") || !hasToken(header.Get("Connection"), "upgrade") ||
		header.Get("Sec-WebSocket-Accept") != base64.StdEncoding.EncodeToString(digest[:]) ||
		header.Get("Sec-WebSocket-Extensions") != "" || header.Get("Sec-WebSocket-Protocol") != "" {
		return nil, &HandshakeError{Status: response.StatusCode, Message: "the server's answer does not open a web socket"}
	}
	limited.N = 1 << 62
	return &Conn{socket: socket, reader: reader, maxBytes: maxBytes}, nil
}

func hasToken(list, token string) bool {
	for _, each := range strings.Split(list, ",") {
		if strings.EqualFold(strings.TrimSpace(each), token) {
			return true
		}
	}
	return false
}

// Read returns the next text message. Its errors are final: CloseError when the server closed the connection.
func (c *Conn) Read() ([]byte, error) {
	var message []byte
	isOpen := false
	for {
		final, op, payload, err := c.readFrame(c.maxBytes - len(message))
		if err != nil {
			return nil, c.refuse(err)
		}
		switch op {
		case opPing:
			if err := c.write(opPong, payload); err != nil {
				return nil, err
			}
			continue
		case opPong:
			continue
		case opClose:
			return nil, c.closedBy(payload)
		case opText:
			if isOpen {
				return nil, c.refuse(&CloseError{CloseProtocol, "a message inside another"})
			}
			isOpen = true
		case opContinuation:
			if !isOpen {
				return nil, c.refuse(&CloseError{CloseProtocol, "a continuation of nothing"})
			}
		case opBinary:
			return nil, c.refuse(&CloseError{CloseUnsupported, "a binary message"})
		default:
			return nil, c.refuse(&CloseError{CloseProtocol, "an unknown kind of frame"})
		}
		message = append(message, payload...)
		if !final {
			continue
		}
		if !utf8.Valid(message) {
			return nil, c.refuse(&CloseError{CloseInvalid, "text that is not UTF-8"})
		}
		return message, nil
	}
}

func (c *Conn) readFrame(limit int) (final bool, op byte, payload []byte, err error) {
	var head [2]byte
	if _, err = io.ReadFull(c.reader, head[:]); err != nil {
		return
	}
	final, op = head[0]&0x80 != 0, head[0]&0x0F
	size := uint64(head[1] & 0x7F)
	isControl := op >= opClose
	if head[0]&0x70 != 0 || head[1]&0x80 != 0 || (isControl && (!final || size > maxControlBytes)) {
		err = &CloseError{CloseProtocol, "a frame that RFC 6455 does not allow"}
		return
	}
	if size >= 126 {
		extended := make([]byte, map[uint64]int{126: 2, 127: 8}[size])
		if _, err = io.ReadFull(c.reader, extended); err != nil {
			return
		}
		size = 0
		for _, b := range extended {
			size = size<<8 | uint64(b)
		}
	}
	if !isControl && size > uint64(limit) {
		err = &CloseError{CloseTooLarge, fmt.Sprintf("a message of more than %d bytes", c.maxBytes)}
		return
	}
	payload = make([]byte, size)
	_, err = io.ReadFull(c.reader, payload)
	return
}

// closedBy answers the server's close frame and returns its code.
func (c *Conn) closedBy(payload []byte) error {
	closed := &CloseError{Code: CloseNone}
	if len(payload) >= 2 {
		closed = &CloseError{int(binary.BigEndian.Uint16(payload)), strings.ToValidUTF8(string(payload[2:]), "\uFFFD")}
		payload = payload[:2]
	}
	_ = c.write(opClose, payload)
	_ = c.socket.Close()
	return closed
}

// refuse closes the connection for an error of the server, and returns it.
func (c *Conn) refuse(err error) error {
	if own, ok := err.(*CloseError); ok {
		_ = c.write(opClose, closePayload(own.Code, own.Reason))
	}
	_ = c.socket.Close()
	return err
}

// Write sends a text message.
func (c *Conn) Write(message []byte) error { return c.write(opText, message) }

// Close starts the closing handshake; Read returns its end. A server that does not answer is cut off.
func (c *Conn) Close() error {
	err := c.write(opClose, closePayload(CloseNormal, ""))
	_ = c.socket.SetReadDeadline(time.Now().Add(closeTimeout))
	return err
}

func closePayload(code int, reason string) []byte {
	if len(reason) > maxControlBytes-2 {
		reason = reason[:maxControlBytes-2]
	}
	return append([]byte{byte(code >> 8), byte(code)}, reason...)
}

// write sends one masked frame. Nothing is sent after a close frame.
func (c *Conn) write(op byte, payload []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.isClosed {
		return net.ErrClosed
	}
	c.isClosed = op == opClose
	var mask [4]byte
	if _, err := rand.Read(mask[:]); err != nil {
		return err
	}
	frame := appendHead(make([]byte, 0, len(payload)+14), op, len(payload))
	frame = append(frame, mask[:]...)
	for at, b := range payload {
		frame = append(frame, b^mask[at%4])
	}
	_ = c.socket.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := c.socket.Write(frame)
	return err
}

func appendHead(frame []byte, op byte, size int) []byte {
	frame = append(frame, 0x80|op)
	switch {
	case size < 126:
		return append(frame, 0x80|byte(size))
	case size < 1<<16:
		return append(frame, 0x80|126, byte(size>>8), byte(size))
	}
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(size))
	return append(append(frame, 0x80|127), length[:]...)
}
