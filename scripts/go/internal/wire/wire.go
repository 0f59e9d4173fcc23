// Package wire reads JSON whose type depends on what is in it.
package wire

import (
	"bytes"
	"encoding/json"
)

// Kind is the kind of a JSON value.
type Kind int

// The kinds of JSON values.
const (
	Null Kind = iota
	String
	Number
	Bool
	Array
	Object
)

// KindOf returns the kind of a valid JSON value.
func KindOf(data []byte) Kind {
	data = bytes.TrimLeft(data, " \t\r\n")
	if len(data) == 0 {
		return Null
	}
	switch data[0] {
	case '"':
		return String
	case '{':
		return Object
	case '[':
		return Array
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	}
	return Number
}

// Decode reads a value of a type.
func Decode[T any](data []byte) (any, error) {
	var value T
	if err := json.Unmarshal(data, &value); err != nil {
		return nil, err
	}
	return value, nil
}

// Member returns a member of an object that is a string or a number, else "".
func Member(data []byte, name string) string {
	value := bytes.TrimSpace(members(data)[name])
	switch KindOf(value) {
	case String:
		var text string
		if json.Unmarshal(value, &text) != nil {
			return ""
		}
		return text
	case Number:
		return string(value)
	}
	return ""
}

// Has returns whether an object has all of the members.
func Has(data []byte, names ...string) bool {
	found := members(data)
	for _, name := range names {
		if _, ok := found[name]; !ok {
			return false
		}
	}
	return true
}

// Clone returns a copy: decoders use their buffers again.
func Clone(data []byte) json.RawMessage {
	return append(json.RawMessage(nil), data...)
}

func members(data []byte) map[string]json.RawMessage {
	var found map[string]json.RawMessage
	if json.Unmarshal(data, &found) != nil {
		return nil
	}
	return found
}
