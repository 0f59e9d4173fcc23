package agentd

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Kinds of an APIError, for errors.Is.
var (
	// ErrAuthentication means that the key is missing or wrong (401).
	ErrAuthentication = errors.New("authentication failed")

	// ErrPermissionDenied means that the key may not do this (403).
	ErrPermissionDenied = errors.New("permission denied")

	// ErrNotFound means that there is no such thing, or not any more (404, 410).
	ErrNotFound = errors.New("not found")

	// ErrConflict means that the thing is not in the state that the call needs (409).
	ErrConflict = errors.New("conflict")

	// ErrRateLimited means that too much was asked for at once (429).
	ErrRateLimited = errors.New("rate limited")

	// ErrServer means that the server or a model behind it failed (5xx).
	ErrServer = errors.New("server error")
)

// APIError is an error response of the server, or an error that ended a stream.
type APIError struct {
	// Status is the HTTP status; 0 for an error inside a stream.
	Status int

	// Code is the stable name of the error, for programs. It is empty when something other than agentd answered.
	Code ErrorCode

	// Type is the class of the error.
	Type ErrorType

	// Message is for people.
	Message string

	// Param is the path of the offending input, such as messages[0].content.
	Param string

	// Details is further data of the error.
	Details map[string]any

	// RequestID names the request in the server's log.
	RequestID string

	// RunID names the run that failed, if one had begun.
	RunID string

	// RetryAfter is how long to wait before another attempt; 0 when the server does not say.
	RetryAfter time.Duration

	// ShouldRetry is what the server says about another attempt; nil when it says nothing.
	ShouldRetry *bool
}

// Error implements error.
func (e *APIError) Error() string {
	if e.Code == "" {
		return e.Message
	}
	return fmt.Sprintf("%s (%s)", e.Message, e.Code)
}

// Is returns whether the error is of a kind such as ErrNotFound.
func (e *APIError) Is(target error) bool {
	switch {
	case e.Status == http.StatusUnauthorized:
		return target == ErrAuthentication
	case e.Status == http.StatusForbidden:
		return target == ErrPermissionDenied
	case e.Status == http.StatusNotFound, e.Status == http.StatusGone:
		return target == ErrNotFound
	case e.Status == http.StatusConflict:
		return target == ErrConflict
	case e.Status == http.StatusTooManyRequests:
		return target == ErrRateLimited
	case e.Status >= 500:
		return target == ErrServer
	}
	return false
}

// ConnectionError means that the server was not reached, or that the connection broke before the answer was complete.
type ConnectionError struct {
	// IsTimeout is true when the server was silent for too long.
	IsTimeout bool

	// Err is the reason.
	Err error
}

// Error implements error.
func (e *ConnectionError) Error() string {
	if e.IsTimeout {
		return "the server was silent for too long"
	}
	return fmt.Sprintf("the connection failed: %v", e.Err)
}

// Unwrap returns the reason.
func (e *ConnectionError) Unwrap() error { return e.Err }

// ProtocolError means that the answer is not what the API promises, for example because a proxy gave it.
type ProtocolError struct {
	// Message says what is wrong.
	Message string
}

// Error implements error.
func (e *ProtocolError) Error() string { return e.Message }

// StreamCutError means that a stream ended before its end and was not resumed. A request that starts work is never sent
// twice: to see what became of the work, follow its run with Client.StreamRunEvents.
type StreamCutError struct {
	// RunID names the run behind the stream, if the server named one.
	RunID string

	// SessionID names its session.
	SessionID string

	// LastEventID is where the stream can be resumed by hand; empty when its events have no numbers.
	LastEventID string

	// Err is the reason.
	Err error
}

// Error implements error.
func (e *StreamCutError) Error() string {
	return fmt.Sprintf("the stream was cut before its end: %v", e.Err)
}

// Unwrap returns the reason.
func (e *StreamCutError) Unwrap() error { return e.Err }

var errEnded = errors.New("the server closed it")

// errorOf reads the error of a response, also of one that some proxy gave.
func errorOf(status int, header http.Header, content []byte) *APIError {
	var envelope struct {
		Error json.RawMessage `json:"error"`
	}
	_ = json.Unmarshal(content, &envelope)
	return apiError(envelope.Error, status, header)
}

// apiError reads the member `error` of an envelope. Status 0 is for one inside a stream: its headers say nothing about it.
func apiError(inner json.RawMessage, status int, header http.Header) *APIError {
	var body struct {
		Message string         `json:"message"`
		Type    ErrorType      `json:"type"`
		Param   *string        `json:"param"`
		Code    ErrorCode      `json:"code"`
		Details map[string]any `json:"details"`
	}
	_ = json.Unmarshal(inner, &body)
	failure := &APIError{
		Status:    status,
		Code:      body.Code,
		Type:      body.Type,
		Message:   body.Message,
		Details:   body.Details,
		RequestID: header.Get("X-Request-Id"),
		RunID:     header.Get("X-Agent-Run-Id"),
	}
	if body.Param != nil {
		failure.Param = *body.Param
	}
	if failure.Message == "" {
		failure.Message = fmt.Sprintf("the server answered with status %d", status)
	}
	if status != 0 {
		failure.RetryAfter = retryAfter(header.Get("Retry-After"))
		if should, err := strconv.ParseBool(header.Get("X-Should-Retry")); err == nil {
			failure.ShouldRetry = &should
		}
	}
	return failure
}

// retryAfter reads seconds or a date (RFC 9110, 10.2.3).
func retryAfter(value string) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil {
		if wait := time.Until(date); wait > 0 {
			return wait
		}
	}
	return 0
}
