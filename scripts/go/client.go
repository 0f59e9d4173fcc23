// Package agentd is the client of the agentd HTTP API. Every operation of the API is a method of Client; README.md shows
// its use. The client of the gateway is in the package gateway.
package agentd

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// DefaultBaseURL is where a server listens unless it is configured otherwise.
const DefaultBaseURL = "http://127.0.0.1:8642"

// Options of a client. The zero value is a client of a server on this machine.
type Options struct {
	// BaseURL is the address of the server, with or without /v1. Default: DefaultBaseURL.
	BaseURL string

	// APIKey is sent as a bearer token. Default: the environment variable API_SERVER_KEY.
	APIKey string

	// HTTPClient sends the requests, for example through a proxy. Default: one that uses no proxy of the environment.
	// Redirects are never followed.
	HTTPClient *http.Client

	// Timeout bounds a call, except for streams. Default: 10 minutes.
	Timeout time.Duration

	// StreamTimeout is the silence after which a stream counts as cut. Default: 60 seconds; the server writes at least a
	// comment every 15 seconds, unless it is configured otherwise.
	StreamTimeout time.Duration

	// Retry bounds what is repeated. Default: DefaultRetry.
	Retry *RetryPolicy
}

// Client calls one server. It may be used by several goroutines at once, and needs no closing.
type Client struct {
	base          *url.URL
	key           string
	http          *http.Client
	timeout       time.Duration
	streamTimeout time.Duration
	retry         RetryPolicy
}

// NewClient returns a client. Nothing is sent yet. It fails when the address is not one.
func NewClient(options Options) (*Client, error) {
	address := options.BaseURL
	if address == "" {
		address = DefaultBaseURL
	}
	base, err := url.Parse(address)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		return nil, fmt.Errorf("BaseURL %q is not an address such as %s", address, DefaultBaseURL)
	}
	if base.RawQuery != "" || base.Fragment != "" || base.User != nil {
		return nil, fmt.Errorf("BaseURL must hold neither a query, nor a fragment, nor a user")
	}
	// OpenAI clients are given the address with /v1; the paths here begin with it.
	base.Path = strings.TrimSuffix(strings.TrimRight(base.Path, "/"), "/v1")
	client := &Client{base: base, key: options.APIKey, timeout: options.Timeout, streamTimeout: options.StreamTimeout, retry: DefaultRetry}
	if client.key == "" {
		client.key = os.Getenv("API_SERVER_KEY")
	}
	if client.timeout == 0 {
		client.timeout = 10 * time.Minute
	}
	if client.streamTimeout == 0 {
		client.streamTimeout = time.Minute
	}
	if options.Retry != nil {
		client.retry = *options.Retry
	}
	client.http = withoutRedirects(options.HTTPClient)
	return client, nil
}

func withoutRedirects(given *http.Client) *http.Client {
	client := http.Client{
		Transport: &http.Transport{
			TLSHandshakeTimeout: 10 * time.Second,
			// Shorter than servers keep theirs: a kept connection may be closed while the next request is written to it,
			// and then nobody knows whether that request was served.
			IdleConnTimeout:     2 * time.Second,
			MaxIdleConnsPerHost: 16,
		},
	}
	if given != nil {
		client = *given
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

// RequestOption changes one call.
type RequestOption func(*callOptions)

type callOptions struct {
	header   http.Header
	response *ResponseInfo
	timeout  time.Duration
}

// ResponseInfo is what a response has beside its body.
type ResponseInfo struct {
	// Status is the HTTP status.
	Status int

	// Header has the response headers, such as ETag and X-Agent-Run-Id.
	Header http.Header
}

// WithHeader sends a header.
func WithHeader(name, value string) RequestOption {
	return func(o *callOptions) { o.header.Set(name, value) }
}

// WithIdempotencyKey makes a call that starts work safe to repeat: the server does the work once for all calls with the key.
func WithIdempotencyKey(key string) RequestOption {
	return WithHeader("Idempotency-Key", key)
}

// WithResponse stores status and headers of the response, also of an error response.
func WithResponse(info *ResponseInfo) RequestOption {
	return func(o *callOptions) { o.response = info }
}

// WithTimeout replaces Options.Timeout, or Options.StreamTimeout for a stream.
func WithTimeout(timeout time.Duration) RequestOption {
	return func(o *callOptions) { o.timeout = timeout }
}
