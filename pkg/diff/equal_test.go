package diff_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

func TestEqual(t *testing.T) {
	nan := math.NaN()
	tests := []struct {
		name string
		a, b any
		want bool
	}{
		{name: "ESS-23 key order", a: m{"a": 1, "b": 2}, b: m{"b": 2, "a": 1}, want: true},
		{name: "ESS-23 integer and float", a: int64(1), b: 1.0, want: true},
		{name: "ESS-23 zeros of any sign", a: 0, b: math.Copysign(0, -1), want: true},
		{name: "ESS-23 numbers are not their text", a: 1, b: "1"},
		{name: "ESS-23 element order of lists", a: l{1, 2}, b: l{2, 1}},
		{name: "ESS-23 lists of different lengths", a: l{1}, b: l{1, 2}},

		{name: "ESS-24 null and absent key", a: m{"a": nil, "b": 1}, b: m{"b": 1}, want: true},
		{name: "ESS-24 nulls under different keys", a: m{"a": nil}, b: m{"b": nil}, want: true},
		{name: "ESS-24 null hiding a longer map", a: m{"a": nil}, b: m{"b": 1}},
		{name: "ESS-24 nil map is null", a: m{"a": m(nil)}, b: m{}, want: true},
		{name: "ESS-24 nil slice is null", a: l{l(nil)}, b: l{nil}, want: true},
		{name: "ESS-24 empty map is not null", a: m{"a": m{}}, b: m{"a": nil}},
		{name: "ESS-24 empty list is not null", a: m{"a": l{}}, b: m{}},
		{name: "ESS-24 empty string is not null", a: m{"a": ""}, b: m{}},
		{name: "ESS-24 zero is not null", a: m{"a": 0}, b: m{}},
		{name: "ESS-24 false is not null", a: m{"a": false}, b: m{}},

		{name: "SE-56 true and 1", a: true, b: 1},
		{name: "SE-56 false and 0.0", a: false, b: 0.0},
		{name: "SE-56 true and json 1", a: true, b: json.Number("1")},
		{name: "SE-56 true and its text", a: true, b: "true"},
		{name: "SE-56 true and true", a: true, b: true, want: true},
		{name: "SE-56 true and false", a: true, b: false},

		{name: "MIG-04 2^53+1 and the float 2^53", a: int64(1<<53 + 1), b: float64(1 << 53)},
		{name: "MIG-04 2^53 and the float 2^53", a: int64(1 << 53), b: float64(1 << 53), want: true},
		{name: "MIG-04 max int64 and the float 2^63", a: int64(math.MaxInt64), b: float64(1 << 63)},
		{name: "MIG-04 min int64 and the float -2^63", a: int64(math.MinInt64), b: -float64(1 << 63), want: true},
		{name: "MIG-04 uint64 2^63 and the float 2^63", a: uint64(1 << 63), b: float64(1 << 63), want: true},
		{name: "MIG-04 uint64 2^63 and min int64", a: uint64(1 << 63), b: int64(math.MinInt64)},
		{name: "MIG-04 max uint64 and int64 -1", a: uint64(math.MaxUint64), b: int64(-1)},
		{name: "MIG-04 max uint64 and the float 2^64", a: uint64(math.MaxUint64), b: float64(1 << 64)},
		{name: "MIG-04 float32 and float64 of a half", a: float32(0.5), b: 0.5, want: true},
		{name: "MIG-04 float32 and float64 of a tenth", a: float32(0.1), b: 0.1},
		{name: "MIG-04 integer and fraction", a: 1, b: 1.5},
		{name: "MIG-04 integer and its negative", a: 1, b: -1.0},
		{name: "MIG-04 integer and infinity", a: 1, b: math.Inf(1)},
		{name: "MIG-04 infinities", a: math.Inf(1), b: math.Inf(1), want: true},
		{name: "MIG-04 infinities of different signs", a: math.Inf(1), b: math.Inf(-1)},

		{name: "MIG-04 json integer", a: json.Number("9007199254740993"), b: int64(1<<53 + 1), want: true},
		{name: "MIG-04 json integer and float", a: json.Number("9007199254740993"), b: float64(1 << 53)},
		{name: "MIG-04 json max uint64", a: json.Number("18446744073709551615"), b: uint64(math.MaxUint64), want: true},
		{name: "MIG-04 json beyond uint64 and float", a: json.Number("18446744073709551616"), b: float64(1 << 64), want: true},
		{name: "MIG-04 json beyond uint64, off by one", a: json.Number("18446744073709551617"), b: json.Number("18446744073709551616")},
		{name: "MIG-04 json beyond uint64 and another float", a: json.Number("18446744073709551617"), b: float64(1 << 64)},
		{name: "MIG-04 json beyond uint64 and its negative", a: json.Number("-18446744073709551616"), b: float64(1 << 64)},
		{name: "MIG-04 json beyond uint64 and infinity", a: json.Number("18446744073709551616"), b: math.Inf(1)},
		{name: "MIG-04 json beyond uint64 and uint64", a: json.Number("18446744073709551616"), b: uint64(0)},
		{name: "MIG-04 json negative zero", a: json.Number("-0"), b: 0, want: true},
		{name: "MIG-04 json tenth", a: json.Number("0.10"), b: 0.1, want: true},
		{name: "MIG-04 json exponent", a: json.Number("1E+3"), b: 1000, want: true},
		{name: "MIG-04 json huge exponent", a: json.Number("1e+23"), b: 1e23, want: true},
		{name: "MIG-04 json fraction is read as a float", a: json.Number("9007199254740993.0"), b: float64(1 << 53), want: true},
		{name: "MIG-04 json beyond float64", a: json.Number("1e999"), b: math.Inf(1), want: true},
		{name: "MIG-04 json number is not a string", a: json.Number("1"), b: "1"},

		{name: "NaN never equals itself", a: nan, b: nan},
		{name: "NaN never equals itself in a map", a: m{"a": nan}, b: m{"a": nan}},
		{name: "NaN of float32", a: float32(nan), b: float32(nan)},
		{name: "NaN and an integer", a: nan, b: 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := diff.Equal(tt.a, tt.b); got != tt.want {
				t.Errorf("Equal(a, b) = %v, want %v", got, tt.want)
			}
			if got := diff.Equal(tt.b, tt.a); got != tt.want {
				t.Errorf("Equal(b, a) = %v, want %v", got, tt.want)
			}
			if got := diff.Of(tt.a, tt.b); got.Empty() != tt.want {
				t.Errorf("Of(a, b) = %v, want empty: %v", got, tt.want)
			}
		})
	}
}

func TestEqual_IntegerTypes(t *testing.T) {
	ones := []any{
		int(1), int8(1), int16(1), int32(1), int64(1),
		uint(1), uint8(1), uint16(1), uint32(1), uint64(1), uintptr(1),
		float32(1), float64(1),
		json.Number("1"), json.Number("1.0"), json.Number("1e0"), json.Number("10e-1"),
	}
	for _, a := range ones {
		for _, b := range ones {
			if !diff.Equal(a, b) {
				t.Errorf("Equal(%T(%v), %T(%v)) = false, want true", a, a, b, b)
			}
		}
		if diff.Equal(a, 2) {
			t.Errorf("Equal(%T(%v), 2) = true, want false", a, a)
		}
	}
}

// The package avoids big numbers for speed. The test computes the expected result with big numbers.
func TestEqual_AgreesWithRationals(t *testing.T) {
	var values []any
	for _, bits := range []uint{0, 1, 24, 31, 52, 53, 54, 62, 63} {
		for _, delta := range []int64{-1, 0, 1} {
			size := uint64(1)<<bits + uint64(delta)
			values = append(values, size, float64(size), float32(size), -float64(size),
				json.Number(fmt.Sprint(size)), json.Number(fmt.Sprintf("-%d", size)),
				json.Number(fmt.Sprintf("%d.0", size)))
			if size <= math.MaxInt64 {
				values = append(values, int64(size), -int64(size))
			}
		}
	}
	values = append(values,
		int64(math.MinInt64), uint64(math.MaxUint64), 0.1, float32(0.1), 0.5, 1e300, 5e-324,
		json.Number("0.1"), json.Number("1e300"), json.Number("1e-400"),
		json.Number("1"+strings.Repeat("0", 300)),
		json.Number("18446744073709551616"), json.Number("-18446744073709551616"),
		json.Number("18446744073709551617"), float64(1<<64), -float64(1<<64),
		json.Number(new(big.Int).Lsh(big.NewInt(1), 1023).String()), math.Ldexp(1, 1023),
	)

	for _, a := range values {
		for _, b := range values {
			want := rational(t, a).Cmp(rational(t, b)) == 0
			if got := diff.Equal(a, b); got != want {
				t.Errorf("Equal(%T(%v), %T(%v)) = %v, want %v", a, a, b, b, got, want)
			}
		}
	}
}

func rational(t *testing.T, value any) *big.Rat {
	t.Helper()
	result := new(big.Rat)
	ok := true
	switch value := value.(type) {
	case int64:
		result.SetInt64(value)
	case uint64:
		result.SetUint64(value)
	case float32:
		ok = result.SetFloat64(float64(value)) != nil
	case float64:
		ok = result.SetFloat64(value) != nil
	case json.Number:
		if strings.ContainsAny(string(value), ".eE") {
			float, err := value.Float64()
			ok = err == nil && result.SetFloat64(float) != nil
		} else {
			_, ok = result.SetString(string(value))
		}
	default:
		ok = false
	}
	if !ok {
		t.Fatalf("no rational for %T(%v)", value, value)
	}
	return result
}

// A json.Number with a text that is not a JSON number equals nothing, even if strconv or Go accepts the text.
func TestEqual_InvalidLiterals(t *testing.T) {
	for _, text := range []string{
		"", "-", "+1", "01", "-01", ".5", "1.", "1.e1", "1e", "1e+", "1e1.0", "1.0.0",
		"0x10", "0x1p4", "1_000", "inf", "NaN", "nan", " 1", "1 ", "1,0", "abc", "--1", "١",
	} {
		number := json.Number(text)
		if diff.Equal(number, number) {
			t.Errorf("json.Number(%q) equals itself", text)
		}
		for _, other := range []any{0, 1, 0.5, 10, 16, 1000, math.Inf(1), text} {
			if diff.Equal(number, other) {
				t.Errorf("json.Number(%q) equals %T(%v)", text, other, other)
			}
		}
	}
}

func TestEqual_DoesNotAllocate(t *testing.T) {
	tests := []struct {
		name string
		a, b any
	}{
		{name: "object", a: mediumObject(), b: mediumObject()},
		{name: "huge json integer", a: json.Number("18446744073709551616"), b: json.Number("18446744073709551616")},
		{name: "huge json integer and float", a: json.Number("18446744073709551616"), b: float64(1 << 64)},
		{name: "json fraction", a: json.Number("0.10"), b: 0.1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			equal := true
			allocs := testing.AllocsPerRun(10, func() { equal = equal && diff.Equal(tt.a, tt.b) })
			if !equal {
				t.Error("the values are not equal")
			}
			if allocs != 0 {
				t.Errorf("%v allocations, want none", allocs)
			}
		})
	}
}
