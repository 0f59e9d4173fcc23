package agentd

import "encoding/json"

// Ptr returns a pointer to a value, for members and parameters that may be left out.
func Ptr[T any](value T) *T {
	return &value
}

// Nullable is a member that may be left out, null, or a value. Nil leaves it out; Some and Null make the others.
type Nullable[T any] []*T

// Some returns a member with a value.
func Some[T any](value T) Nullable[T] {
	return Nullable[T]{&value}
}

// Null returns a member that is sent as null.
func Null[T any]() Nullable[T] {
	return Nullable[T]{nil}
}

// Get returns the value, and whether there is one.
func (n Nullable[T]) Get() (T, bool) {
	if len(n) == 0 || n[0] == nil {
		var none T
		return none, false
	}
	return *n[0], true
}

// IsNull returns whether the member is null, and not only left out.
func (n Nullable[T]) IsNull() bool {
	return len(n) > 0 && n[0] == nil
}

// MarshalJSON implements json.Marshaler.
func (n Nullable[T]) MarshalJSON() ([]byte, error) {
	if len(n) == 0 {
		return []byte("null"), nil
	}
	return json.Marshal(n[0])
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Nullable[T]) UnmarshalJSON(data []byte) error {
	var value *T
	if err := json.Unmarshal(data, &value); err != nil {
		return err
	}
	*n = Nullable[T]{value}
	return nil
}
