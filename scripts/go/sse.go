package agentd

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxFrameBytes bounds an event of a stream; no server of this API sends a larger one.
const maxFrameBytes = 32 << 20

// sseFrame is one event. Its id is the last one that the stream gave, which may be from an earlier frame.
type sseFrame struct {
	data  string
	event string
	id    string
}

// sseReader reads server-sent events (WHATWG HTML, 9.2). A frame that never ends is never returned.
type sseReader struct {
	source  *bufio.Reader
	afterCR bool
	started bool
	id      string
	retry   time.Duration
	comment string
}

func newSSEReader(source io.Reader) *sseReader {
	return &sseReader{source: bufio.NewReader(source)}
}

// next returns the next frame with data; io.EOF at the end of the stream.
func (r *sseReader) next() (sseFrame, error) {
	var data []string
	event, size := "message", 0
	for {
		line, err := r.line(maxFrameBytes - size)
		if err != nil {
			return sseFrame{}, err
		}
		size += len(line)
		if line == "" {
			if len(data) > 0 {
				return sseFrame{data: strings.Join(data, "\n"), event: event, id: r.id}, nil
			}
			event, size = "message", 0
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			data = append(data, value)
		case "event":
			event = value
		case "id":
			if !strings.Contains(value, "\x00") {
				r.id = value
			}
		case "retry":
			if ms, err := strconv.ParseUint(value, 10, 31); err == nil {
				r.retry = time.Duration(ms) * time.Millisecond
			}
		case "":
			r.comment = value
		}
	}
}

// line returns a line without its end, which is CR, LF or both.
func (r *sseReader) line(limit int) (string, error) {
	var line []byte
	for {
		b, err := r.source.ReadByte()
		if err != nil {
			return "", err
		}
		isLF := b == '\n'
		if isLF && r.afterCR {
			r.afterCR = false
			continue
		}
		r.afterCR = b == '\r'
		if isLF || r.afterCR {
			return r.decode(line), nil
		}
		if line = append(line, b); len(line) > limit {
			return "", &ProtocolError{Message: fmt.Sprintf("an event of the stream is larger than %d bytes", maxFrameBytes)}
		}
	}
}

func (r *sseReader) decode(line []byte) string {
	text := string(line)
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	if !r.started {
		r.started = true
		text = strings.TrimPrefix(text, "\uFEFF")
	}
	return text
}
