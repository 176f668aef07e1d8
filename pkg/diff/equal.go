package diff

import (
	"encoding/json"
	"math"
	"reflect"
	"strconv"
)

// Equal reports whether [Of] would return no differences. It is faster than Of, because it stops at the first difference and doesn't
// allocate memory for equal JSON values.
func Equal(a, b any) bool {
	if isNull(a) || isNull(b) {
		return isNull(a) && isNull(b)
	}
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && equalMaps(a, b)
	case []any:
		b, ok := b.([]any)
		return ok && equalLists(a, b)
	case string:
		b, ok := b.(string)
		return ok && a == b
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	}
	if x, ok := numberOf(a); ok {
		y, ok := numberOf(b)
		return ok && x.equal(y)
	}
	// Unlike ==, DeepEqual doesn't panic on types that aren't comparable.
	return reflect.DeepEqual(a, b)
}

func equalMaps(a, b map[string]any) bool {
	if reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() {
		return true // JSON forms of one object share the fields that haven't changed
	}
	shared := 0
	for key, value := range a {
		other, ok := b[key]
		if !Equal(value, other) {
			return false
		}
		if ok {
			shared++
		}
	}
	// Usually, every key of b was compared. We can't compare the lengths, because keys with the value null don't count.
	if shared == len(b) {
		return true
	}
	for key, value := range b {
		if _, ok := a[key]; !ok && !isNull(value) {
			return false
		}
	}
	return true
}

func equalLists(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// isNull reports whether Equal treats a value as absent. A nil map or slice in an interface isn't a nil interface, but it is null in JSON.
func isNull(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		return value == nil
	case []any:
		return value == nil
	default:
		return false
	}
}

// A number is a numeric value independent of its Go type. A common Go type wouldn't do: float64 loses integers beyond 2^53, and the numbers
// of math/big need allocations.
type number struct {
	form     form
	negative bool    // sign of an integer; false for zero
	size     uint64  // absolute value of a smallInteger
	digits   string  // absolute value of a bigInteger, without leading zeros
	float    float64 // value of a floating number
}

// A form says which fields are in use. Each integer has exactly one form, so numbers of different integer forms are never equal.
type form int

const (
	smallInteger form = iota // absolute value fits into 64 bits
	bigInteger               // absolute value doesn't fit into 64 bits
	floating
)

// numberOf returns the number of a numeric value, or false for other values.
func numberOf(value any) (number, bool) {
	switch value := value.(type) {
	case int:
		return signed(int64(value)), true
	case int8:
		return signed(int64(value)), true
	case int16:
		return signed(int64(value)), true
	case int32:
		return signed(int64(value)), true
	case int64:
		return signed(value), true
	case uint:
		return unsigned(uint64(value)), true
	case uint8:
		return unsigned(uint64(value)), true
	case uint16:
		return unsigned(uint64(value)), true
	case uint32:
		return unsigned(uint64(value)), true
	case uint64:
		return unsigned(value), true
	case uintptr:
		return unsigned(uint64(value)), true
	case float32:
		return number{form: floating, float: float64(value)}, true
	case float64:
		return number{form: floating, float: value}, true
	case json.Number:
		return literal(string(value)), true
	default:
		return number{}, false
	}
}

func signed(value int64) number {
	if value < 0 {
		// Negating after the conversion is correct even for the lowest int64, which has no positive counterpart.
		return number{form: smallInteger, negative: true, size: -uint64(value)}
	}
	return number{form: smallInteger, size: uint64(value)}
}

func unsigned(value uint64) number {
	return number{form: smallInteger, size: value}
}

// literal parses the text of a JSON number. Integer syntax gives an exact integer, other valid text the nearest float64, and invalid text
// NaN.
func literal(text string) number {
	integer, valid := scanLiteral(text)
	switch {
	case !valid:
		return number{form: floating, float: math.NaN()}
	case !integer:
		// The only possible error is a value out of range, for which ParseFloat returns infinity.
		float, _ := strconv.ParseFloat(text, 64)
		return number{form: floating, float: float}
	}

	digits, negative := text, text[0] == '-'
	if negative {
		digits = text[1:]
	}
	// Compare first, because ParseUint allocates its error.
	const highest = "18446744073709551615"
	if len(digits) > len(highest) || len(digits) == len(highest) && digits > highest {
		return number{form: bigInteger, negative: negative, digits: digits}
	}
	size, _ := strconv.ParseUint(digits, 10, 64)
	return number{form: smallInteger, negative: negative && size != 0, size: size}
}

// scanLiteral validates the text and reports whether it is an integer. The JSON grammar is stricter than the parsers of strconv.
func scanLiteral(text string) (integer, valid bool) {
	rest := text
	if rest != "" && rest[0] == '-' {
		rest = rest[1:]
	}
	whole := leadingDigits(rest)
	if whole == 0 || whole > 1 && rest[0] == '0' {
		return false, false
	}
	rest = rest[whole:]
	if rest == "" {
		return true, true
	}
	if rest[0] == '.' {
		fraction := leadingDigits(rest[1:])
		if fraction == 0 {
			return false, false
		}
		rest = rest[1+fraction:]
	}
	if rest != "" && (rest[0] == 'e' || rest[0] == 'E') {
		rest = rest[1:]
		if rest != "" && (rest[0] == '+' || rest[0] == '-') {
			rest = rest[1:]
		}
		exponent := leadingDigits(rest)
		if exponent == 0 {
			return false, false
		}
		rest = rest[exponent:]
	}
	return false, rest == ""
}

func leadingDigits(text string) int {
	count := 0
	for count < len(text) && '0' <= text[count] && text[count] <= '9' {
		count++
	}
	return count
}

func (n number) equal(other number) bool {
	switch {
	case n.form == floating && other.form == floating:
		return n.float == other.float
	case n.form == floating:
		return other.equalFloat(n.float)
	case other.form == floating:
		return n.equalFloat(other.float)
	default:
		return n == other
	}
}

// equalFloat compares an integer with a float. It converts the float to an integer, because that is exact for all floats without a
// fraction.
func (n number) equalFloat(float float64) bool {
	size := math.Abs(float)
	if size != math.Trunc(size) || math.IsInf(size, 0) { // Trunc(NaN) differs from NaN, too
		return false
	}
	if size != 0 && n.negative != (float < 0) {
		return false
	}
	const limit = 1 << 64
	if n.form == smallInteger {
		return size < limit && uint64(size) == n.size
	}
	if size < limit {
		return false
	}
	// The highest float64 has 309 digits, so the buffer stays on the stack.
	var buffer [320]byte
	return string(strconv.AppendFloat(buffer[:0], size, 'f', 0, 64)) == n.digits
}
