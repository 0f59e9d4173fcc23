package gateway

import (
	"encoding/json"
	"fmt"
)

// Error is an error response of the gateway.
type Error struct {
	// Code is the error code; the gateway's reference lists the codes of each method.
	Code int

	// Reason is the stable name of the error, such as session_not_found.
	Reason string

	// Message is for people.
	Message string

	// Retryable is true when the same call may succeed later.
	Retryable bool

	// Data is further data of the error, such as the issues of invalid parameters.
	Data map[string]any
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s (%d %s)", e.Message, e.Code, e.Reason) }

// CutError means that the connection was cut during a call, whose outcome is unknown. The call is not repeated.
type CutError struct {
	// Method is the method of the call.
	Method string

	// Err is why the connection was cut.
	Err error
}

// Error implements error.
func (e *CutError) Error() string {
	return fmt.Sprintf("cut before %s was answered; check whether it was done: %v", e.Method, e.Err)
}

// Unwrap returns why the connection was cut.
func (e *CutError) Unwrap() error { return e.Err }

// ClosedError means that the client is closed.
type ClosedError struct {
	// Err is the error that closed it; nil after Client.Close.
	Err error
}

// Error implements error.
func (e *ClosedError) Error() string {
	if e.Err == nil {
		return "the client is closed"
	}
	return fmt.Sprintf("the client is closed: %v", e.Err)
}

// Unwrap returns the error that closed the client.
func (e *ClosedError) Unwrap() error { return e.Err }

// TransportError means that a connection ended or could not be opened.
type TransportError struct {
	// Message says what happened.
	Message string

	// IsPermanent is true when another attempt cannot succeed: the key is wrong, or the program cannot be started.
	IsPermanent bool

	// Err is the cause, if there is one.
	Err error
}

// Error implements error.
func (e *TransportError) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return fmt.Sprintf("%s: %v", e.Message, e.Err)
}

// Unwrap returns the cause.
func (e *TransportError) Unwrap() error { return e.Err }

// EventsLostError means that events were read too slowly, and too many were waiting. Call Client.Events again, then read the
// history of the sessions.
type EventsLostError struct {
	// Cursors has the last event of each session that was read.
	Cursors map[string]Cursor
}

// Error implements error.
func (e *EventsLostError) Error() string {
	return "too many unread events: call Events again and read the history"
}

// wireError is an error in a frame.
type wireError struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Data    map[string]any `json:"data"`
}

func (e *wireError) typed() *Error {
	reason, _ := e.Data["reason"].(string)
	retryable, _ := e.Data["retryable"].(bool)
	return &Error{Code: e.Code, Reason: reason, Message: e.Message, Retryable: retryable, Data: e.Data}
}

// isPermanent returns whether the same attempt cannot succeed later.
func isPermanent(err error) bool {
	switch failure := err.(type) {
	case *Error:
		return !failure.Retryable
	case *TransportError:
		return failure.IsPermanent
	}
	return false
}

func decode[T any](data json.RawMessage) (*T, error) {
	value := new(T)
	if err := json.Unmarshal(data, value); err != nil {
		return nil, fmt.Errorf("the gateway's answer is not what its specification promises: %w", err)
	}
	return value, nil
}
