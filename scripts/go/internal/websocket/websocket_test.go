package websocket

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// serve answers one handshake and then lets `talk` have the connection. `accept` replaces the accept header.
func serve(t *testing.T, accept string, talk func(net.Conn, *bufio.Reader)) *url.URL {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		socket, err := listener.Accept()
		if err != nil {
			return
		}
		defer socket.Close()
		reader := bufio.NewReader(socket)
		request, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		digest := sha1.Sum([]byte(request.Header.Get("Sec-WebSocket-Key") + keyGUID))
		header := accept
		if header == "" {
			header = base64.StdEncoding.EncodeToString(digest[:])
		}
		fmt.Fprintf(socket, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", header)
		talk(socket, reader)
	}()
	return &url.URL{Scheme: "ws", Host: listener.Addr().String(), Path: "/api/ws", RawQuery: "a=b"}
}

func open(t *testing.T, target *url.URL, maxBytes int) *Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, err := Dial(ctx, target, nil, maxBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.socket.Close() })
	return conn
}

// received reads one frame of the client, unmasked.
func received(reader *bufio.Reader) (op byte, masked bool, payload string) {
	var head [2]byte
	if _, err := io.ReadFull(reader, head[:]); err != nil {
		return 0, false, err.Error()
	}
	size := int(head[1] & 0x7F)
	if count := map[int]int{126: 2, 127: 8}[size]; count > 0 {
		size = 0
		for ; count > 0; count-- {
			b, _ := reader.ReadByte()
			size = size<<8 | int(b)
		}
	}
	mask := make([]byte, 4)
	_, _ = io.ReadFull(reader, mask)
	data := make([]byte, size)
	_, _ = io.ReadFull(reader, data)
	for at := range data {
		data[at] ^= mask[at%4]
	}
	return head[0] & 0x0F, head[1]&0x80 != 0, string(data)
}

func TestMessagesOfEveryLengthAreMaskedAndWhole(t *testing.T) {
	for _, size := range []int{0, 1, 125, 126, 65535, 65536, 200000} {
		text := strings.Repeat("ä", size/2) + strings.Repeat("a", size%2)
		got := make(chan string, 1)
		conn := open(t, serve(t, "", func(_ net.Conn, reader *bufio.Reader) {
			op, masked, payload := received(reader)
			got <- fmt.Sprint(op, masked, payload == text)
		}), 1<<20)
		if err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if found := <-got; found != "1 true true" {
			t.Errorf("%d bytes arrived as %s", size, found)
		}
	}
}

func TestFragmentsWithAPingBetweenAreOneMessage(t *testing.T) {
	pong := make(chan string, 1)
	conn := open(t, serve(t, "", func(socket net.Conn, reader *bufio.Reader) {
		for _, b := range []byte("\x01\x02he\x89\x02hi\x00\x01l\x80\x02lo\x81\x03two") {
			_, _ = socket.Write([]byte{b})
		}
		op, masked, payload := received(reader)
		pong <- fmt.Sprintln(op, masked, payload)
	}), 1<<20)
	for _, want := range []string{"hello", "two"} {
		if message, err := conn.Read(); err != nil || string(message) != want {
			t.Fatalf("%q, %v instead of %q", message, err, want)
		}
	}
	if found := <-pong; found != "10 true hi\n" {
		t.Errorf("the ping was answered by %s", found)
	}
}

func TestWhatAServerMustNotSendClosesTheConnectionWithItsCode(t *testing.T) {
	cases := map[string]struct {
		bytes string
		code  int
	}{
		"a masked frame":                 {"\x81\x81\x00\x00\x00\x00a", CloseProtocol},
		"a reserved bit":                 {"\xc1\x01a", CloseProtocol},
		"an unknown opcode":              {"\x83\x01a", CloseProtocol},
		"a fragmented ping":              {"\x09\x01a", CloseProtocol},
		"a long ping":                    {"\x89\x7e\x00\x7e", CloseProtocol},
		"a continuation of nothing":      {"\x80\x01a", CloseProtocol},
		"a message inside another":       {"\x01\x01a\x81\x01b", CloseProtocol},
		"a binary message":               {"\x82\x01a", CloseUnsupported},
		"text that is not UTF-8":         {"\x81\x01\xff", CloseInvalid},
		"a message beyond the limit":     {"\x81\x7e\x00\xc8", CloseTooLarge},
		"fragments beyond the limit":     {"\x01\x50" + strings.Repeat("a", 80) + "\x80\x50" + strings.Repeat("a", 80), CloseTooLarge},
		"a length that no memory can do": {"\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff", CloseTooLarge},
	}
	for name, each := range cases {
		told := make(chan string, 1)
		conn := open(t, serve(t, "", func(socket net.Conn, reader *bufio.Reader) {
			_, _ = io.WriteString(socket, each.bytes)
			op, _, payload := received(reader)
			told <- fmt.Sprintf("%d %x", op, payload[:2])
		}), 100)
		_, err := conn.Read()
		var closed *CloseError
		if !errors.As(err, &closed) || closed.Code != each.code {
			t.Errorf("%s: %v instead of %d", name, err, each.code)
		}
		if found := <-told; found != fmt.Sprintf("8 %04x", each.code) {
			t.Errorf("%s: the server was told %s", name, found)
		}
	}
}

func TestACloseIsAnsweredAndReportedWithItsCode(t *testing.T) {
	answer := make(chan string, 1)
	conn := open(t, serve(t, "", func(socket net.Conn, reader *bufio.Reader) {
		_, _ = io.WriteString(socket, "\x88\x05\x11\x31key")
		op, _, payload := received(reader)
		answer <- fmt.Sprintf("%d %x", op, payload)
	}), 100)
	_, err := conn.Read()
	var closed *CloseError
	if !errors.As(err, &closed) || closed.Code != 4401 || closed.Reason != "key" {
		t.Errorf("%v", err)
	}
	if found := <-answer; found != "8 1131" {
		t.Errorf("the close was answered by %s", found)
	}
	if err := conn.Write([]byte("late")); err == nil {
		t.Error("a message was sent after the close")
	}
}

func TestACutConnectionIsNoClose(t *testing.T) {
	conn := open(t, serve(t, "", func(socket net.Conn, _ *bufio.Reader) { _, _ = io.WriteString(socket, "\x81\x05he") }), 100)
	_, err := conn.Read()
	var closed *CloseError
	if err == nil || errors.As(err, &closed) {
		t.Errorf("%v", err)
	}
}

func TestAnAnswerThatOpensNoSocketIsRefused(t *testing.T) {
	target := serve(t, "wrong", func(net.Conn, *bufio.Reader) {})
	_, err := Dial(context.Background(), target, nil, 100)
	var refused *HandshakeError
	if !errors.As(err, &refused) {
		t.Errorf("%v", err)
	}
}

func TestTheEndOfTheContextEndsTheHandshake(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		socket, err := listener.Accept()
		if err == nil {
			defer socket.Close()
			cancel()
			_, _ = io.Copy(io.Discard, socket)
		}
	}()
	_, err = Dial(ctx, &url.URL{Scheme: "ws", Host: listener.Addr().String(), Path: "/"}, nil, 100)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
