package progress_test

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

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func TestEncodeJSON(t *testing.T) {
	for _, test := range []struct {
		name  string
		value any
		want  string
	}{
		{"ESS-10 compact", map[string]any{"a": []any{int64(1), true, nil}, "b": map[string]any{}}, `{"a":[1,true,null],"b":{}}`},
		{"ESS-10 HTML characters are not escaped", "<a&b>", `"<a&b>"`},
		{"ESS-10 non-ASCII characters", "a\u00e9\u0451\u20acz", `"a\u00e9\u0451\u20acz"`},
		{"ESS-10 limits of the basic multilingual plane", "\u0080\u0080\uffff", `"\u0080\u0080\uffff"`},
		{"ESS-10 supplementary characters", "\U00010000\U0001F600\U0010FFFF", `"\ud800\udc00\ud83d\ude00\udbff\udfff"`},
		{"ESS-10 keys", map[string]any{"ключ": 1}, `{"\u043a\u043b\u044e\u0447":1}`},
		{"ESS-10 invalid UTF-8", "a\xffb", `"a\ufffdb"`},
		{"ESS-10 raw JSON", json.RawMessage(`"é<"`), `"\u00e9<"`},
		{"ESS-10 control characters", "\"\\\b\f\n\r\t\x00\x1f\x7f", `"\"\\\b\f\n\r\t\u0000\u001f` + "\x7f" + `"`},
		{"ESS-10 sorted keys", map[string]any{"b": int64(1), "a": "x", "": false, "ab": nil}, `{"":false,"a":"x","ab":null,"b":1}`},
		{"nil map and list", []any{map[string]any(nil), []any(nil)}, `[null,null]`},
		{"other Go types", map[string]any{"a": []string{"é"}, "b": 1.5, "c": struct{ X int }{1}}, `{"a":["\u00e9"],"b":1.5,"c":{"X":1}}`},
		{"MIG-04 integers beyond 2^53", int64(9007199254740993), `9007199254740993`},
	} {
		t.Run(test.name, func(t *testing.T) {
			text, err := progress.EncodeJSON(test.value)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "text", string(text), test.want)
		})
	}
}

func TestEncodeJSON_InvalidValue(t *testing.T) {
	for _, value := range []any{math.NaN(), []any{math.Inf(1)}, map[string]any{"a": []any{func() {}}}} {
		if text, err := progress.EncodeJSON(value); err == nil || text != nil {
			t.Errorf("encoded %v = %q, want an error", value, text)
		}
	}
}

// FuzzEncodeJSON compares the encoding of decoded JSON with encoding/json.
func FuzzEncodeJSON(f *testing.F) {
	for _, seed := range []string{`{"b":[1,-2.5e30,true,null,""],"a":{"<&>":"\u2028é😀\\\""}}`, `"\u0000\u001f\ud800"`, "{\"\xff\":1,\"\xfe\":2}", `9223372036854775808`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		var value any
		if err := utiljson.Unmarshal(document, &value); err != nil {
			return
		}
		text, err := progress.EncodeJSON(value)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "text", string(text), referenceJSON(t, value))
	})
}

// referenceJSON encodes a value with encoding/json, and escapes the non-ASCII characters.
func referenceJSON(t *testing.T, value any) string {
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, r := range strings.TrimSuffix(encoded.String(), "\n") {
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
