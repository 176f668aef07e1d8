package jsonform_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/kopf-runtime/kopf-runtime/internal/jsonform"
)

func TestEncode(t *testing.T) {
	for name, test := range map[string]struct {
		value any
		want  string
	}{
		"sorted keys":               {map[string]any{"b": int64(1), "a": "x", "": false, "ab": nil}, `{"":false,"a":"x","ab":null,"b":1}`},
		"lists":                     {[]any{true, []any{}, map[string]any{}}, `[true,[],{}]`},
		"nil maps and lists":        {[]any{map[string]any(nil), []any(nil)}, `[null,null]`},
		"a named map":               {map[string]any{"a": named{"b": "é"}}, `{"a":{"b":"é"}}`},
		"other Go types":            {[]any{[]string{"é"}, 1.5, struct{ X int }{1}}, `[["é"],1.5,{"X":1}]`},
		"control characters":        {"\"\\\b\f\n\r\t\x00\x1f\x7f", `"\"\\\b\f\n\r\t\u0000\u001f` + "\x7f" + `"`},
		"HTML and other characters": {"<a>&é😀\u2028", `"<a>&é😀\u2028"`},
		"invalid UTF-8":             {"a\xff\xfeb\ufffd", `"a\ufffd\ufffdb` + "\ufffd" + `"`},
		"integers beyond 2^53":      {int64(9007199254740993), `9007199254740993`},
		"nested values":             {map[string]any{"a": map[string]any{"b": []any{nil}}}, `{"a":{"b":[null]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := jsonform.Encode(test.value)
			if err != nil || string(text) != test.want {
				t.Errorf("got  %s, error %v\nwant %s", text, err, test.want)
			}
		})
	}
}

type named map[string]any

func TestEncode_InvalidValue(t *testing.T) {
	cyclic := map[string]any{}
	cyclic["self"] = []any{cyclic}
	for _, value := range []any{math.NaN(), []any{math.Inf(1)}, map[string]any{"a": []any{func() {}}}, cyclic} {
		if text, err := jsonform.Encode(value); err == nil || text != nil {
			t.Errorf("encoded %T = %q, want an error", value, text)
		}
	}
}

// FuzzEncode compares the encoding of decoded JSON with encoding/json.
func FuzzEncode(f *testing.F) {
	for _, seed := range []string{`{"b":[1,-2.5e30,true,null,""],"a":{"<&>":"\u2028é😀\\\""}}`, `"\u0000\u001f\ud800"`, "{\"\xff\":1,\"\xfe\":2}", `9223372036854775808`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		var value any
		if err := utiljson.Unmarshal(document, &value); err != nil {
			return
		}
		want := standard(t, value)
		if text, err := jsonform.Encode(value); err != nil || string(text) != want {
			t.Errorf("got  %s, error %v\nwant %s", text, err, want)
		}
		want = escaped(want)
		if text, err := jsonform.EncodeASCII(value); err != nil || string(text) != want {
			t.Errorf("ASCII: got  %s, error %v\nwant %s", text, err, want)
		}
	})
}

// standard encodes a value with encoding/json.
func standard(t *testing.T, value any) string {
	t.Helper()
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(encoded.String(), "\n")
}

// escaped escapes the characters of a JSON text that are not ASCII.
func escaped(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r < utf8.RuneSelf {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	return out.String()
}
