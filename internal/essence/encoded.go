package essence

import (
	"bytes"
	"reflect"
)

// Encoded is an essence with its encoded form. The zero value has no essence.
type Encoded struct {
	essence map[string]any
	text    []byte
}

// Encoding encodes an essence. It keeps the essence, so the caller must not change it afterwards.
func Encoding(essence map[string]any) (Encoded, error) {
	text, err := Encode(essence)
	if err != nil {
		return Encoded{}, err
	}
	return Encoded{essence, text}, nil
}

// Decoded returns the Encoded for an essence that was decoded from text. The essence must not be changed afterwards.
func Decoded(text []byte, essence map[string]any) Encoded { return Encoded{essence, text} }

// TextIfSame returns the encoded form if essence is the very map that e holds, and nil otherwise.
func (e Encoded) TextIfSame(essence map[string]any) []byte {
	if e.essence == nil || reflect.ValueOf(e.essence).Pointer() != reflect.ValueOf(essence).Pointer() {
		return nil
	}
	return e.text
}

// Is reports whether the encoded form equals text.
func (e Encoded) Is(text []byte) bool { return e.text != nil && bytes.Equal(e.text, text) }
