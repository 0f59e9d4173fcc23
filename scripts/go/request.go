package agentd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// maxAnswerBytes bounds an answer; a larger one is refused.
const maxAnswerBytes = 256 << 20

// badSegment stands for a path parameter that would change the path around it.
const badSegment = "\x00"

// request is a request before it has a connection.
type request struct {
	method      string
	accept      string
	path        string
	values      url.Values
	header      http.Header
	body        []byte
	contentType string
	err         error
}

func newRequest(method, accept string, pieces ...string) *request {
	r := &request{method: method, accept: accept, path: strings.Join(pieces, ""), values: url.Values{}, header: http.Header{}}
	if strings.Contains(r.path, badSegment) {
		r.err = errors.New("a path parameter is empty, \".\" or \"..\"")
	}
	return r
}

// segment escapes a path parameter.
func segment(value any) string {
	text := fmt.Sprint(value)
	if text == "" || text == "." || text == ".." {
		return badSegment
	}
	return url.PathEscape(text)
}

func (r *request) query(name string, value any) {
	for _, text := range texts(reflect.ValueOf(value)) {
		r.values.Add(name, text)
	}
}

func (r *request) setHeader(name string, value any) {
	for _, text := range texts(reflect.ValueOf(value)) {
		r.header.Add(name, text)
	}
}

// texts returns a parameter as it is written in an address or a header; nothing when it is left out.
func texts(value reflect.Value) []string {
	switch value.Kind() {
	case reflect.Ptr:
		if value.IsNil() {
			return nil
		}
		if value.Elem().Kind() == reflect.String {
			return []string{value.Elem().String()}
		}
		return texts(value.Elem())
	case reflect.Slice:
		var all []string
		for i := 0; i < value.Len(); i++ {
			all = append(all, texts(value.Index(i))...)
		}
		return all
	case reflect.String:
		if value.String() == "" {
			return nil
		}
		return []string{value.String()}
	case reflect.Bool:
		return []string{strconv.FormatBool(value.Bool())}
	case reflect.Float64:
		return []string{strconv.FormatFloat(value.Float(), 'f', -1, 64)}
	case reflect.Int64:
		return []string{strconv.FormatInt(value.Int(), 10)}
	}
	return nil
}

// json sets the body. A nil pointer sends none.
func (r *request) json(body any) {
	if value := reflect.ValueOf(body); !value.IsValid() || (value.Kind() == reflect.Ptr && value.IsNil()) {
		return
	}
	r.body, r.err = r.marshal(body)
	r.contentType = "application/json"
}

func (r *request) bytes(body []byte) {
	r.body, r.contentType = body, "application/octet-stream"
}

// streamed sets a body that asks for a stream.
func (r *request) streamed(body any) {
	r.json(body)
	members := map[string]json.RawMessage{}
	if r.err == nil && r.body != nil {
		r.err = json.Unmarshal(r.body, &members)
	}
	members["stream"] = json.RawMessage("true")
	if r.err == nil {
		r.body, r.err = json.Marshal(members)
	}
	r.contentType = "application/json"
}

// unstreamed sets a body whose whole answer is wanted at once.
func (r *request) unstreamed(body any) {
	r.json(body)
	var asked struct {
		Stream any `json:"stream"`
	}
	if r.err == nil && r.body != nil && json.Unmarshal(r.body, &asked) == nil && asked.Stream == true {
		r.err = errors.New("this method returns the whole answer at once: call the Stream method for a stream")
	}
}

func (r *request) marshal(body any) ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	return json.Marshal(body)
}

// repeatable returns whether it may be sent again when it is not known what became of the first.
func (r *request) repeatable(options *callOptions) bool {
	return r.method == http.MethodGet || r.header.Get("Idempotency-Key") != "" || options.header.Get("Idempotency-Key") != ""
}

func readOptions(options []RequestOption) *callOptions {
	all := &callOptions{header: http.Header{}}
	for _, option := range options {
		option(all)
	}
	return all
}

// open sends a request once. The caller closes the body.
func (c *Client) open(ctx context.Context, r *request, options *callOptions) (*http.Response, error) {
	if r.err != nil {
		return nil, r.err
	}
	target := *c.base
	target.RawPath = c.base.EscapedPath() + r.path
	target.Path, _ = url.PathUnescape(target.RawPath)
	target.RawQuery = r.values.Encode()
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	sent, err := http.NewRequestWithContext(ctx, r.method, target.String(), body)
	if err != nil {
		return nil, err
	}
	sent.Header.Set("User-Agent", "agentd-client-go/"+Version)
	if r.accept != "" {
		sent.Header.Set("Accept", r.accept)
	}
	if c.key != "" {
		sent.Header.Set("Authorization", "Bearer "+c.key)
	}
	if r.body != nil {
		sent.Header.Set("Content-Type", r.contentType)
	}
	for _, header := range []http.Header{r.header, options.header} {
		for name, values := range header {
			sent.Header[name] = values
		}
	}
	response, err := c.http.Do(sent)
	if err != nil {
		return nil, connectionError(err)
	}
	if options.response != nil {
		*options.response = ResponseInfo{Status: response.StatusCode, Header: response.Header}
	}
	return response, nil
}

func connectionError(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		// Its text has the whole address, which may hold what is not for logs.
		err = wrapped.Err
	}
	return &ConnectionError{IsTimeout: errors.Is(err, context.DeadlineExceeded), Err: err}
}

// answer sends a request, again if it may, and returns the body of its answer.
func (c *Client) answer(ctx context.Context, r *request, given []RequestOption) ([]byte, error) {
	options := readOptions(given)
	timeout := c.timeout
	if options.timeout > 0 {
		timeout = options.timeout
	}
	for failures := 0; ; {
		content, err := c.answerOnce(ctx, r, options, timeout)
		if err == nil || r.err != nil {
			return content, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		failures++
		if !r.repeatable(options) || failures > c.retry.MaxRetries || !c.retry.passes(err) {
			return nil, err
		}
		if err := sleep(ctx, c.retry.delay(failures, askedWait(err))); err != nil {
			return nil, err
		}
	}
}

func (c *Client) answerOnce(ctx context.Context, r *request, options *callOptions, timeout time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	response, err := c.open(ctx, r, options)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := readBody(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return nil, errorOf(response.StatusCode, response.Header, content)
	}
	return content, nil
}

func readBody(body io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(body, maxAnswerBytes+1))
	if err != nil {
		return nil, connectionError(err)
	}
	if len(content) > maxAnswerBytes {
		return nil, &ProtocolError{Message: fmt.Sprintf("the answer is larger than %d bytes", maxAnswerBytes)}
	}
	return content, nil
}

// send returns an answer that is an object; nil for one without a body.
func send[T any](ctx context.Context, c *Client, r *request, options []RequestOption) (*T, error) {
	content, err := c.answer(ctx, r, options)
	if err != nil || len(content) == 0 {
		return nil, err
	}
	return readJSON[T](content)
}

// sendValue returns an answer that is any other JSON.
func sendValue[T any](ctx context.Context, c *Client, r *request, options []RequestOption) (T, error) {
	found, err := send[T](ctx, c, r, options)
	if err != nil || found == nil {
		var none T
		return none, err
	}
	return *found, nil
}

// sendRaw returns an answer that is not JSON.
func sendRaw[T string | []byte](ctx context.Context, c *Client, r *request, options []RequestOption) (T, error) {
	content, err := c.answer(ctx, r, options)
	return T(content), err
}

func sendEmpty(ctx context.Context, c *Client, r *request, options []RequestOption) error {
	_, err := c.answer(ctx, r, options)
	return err
}

func readJSON[T any](content []byte) (*T, error) {
	value := new(T)
	if err := json.Unmarshal(content, value); err != nil {
		return nil, &ProtocolError{Message: fmt.Sprintf("the server's answer is not what the API promises: %v", err)}
	}
	return value, nil
}
