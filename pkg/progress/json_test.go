package progress_test

import (
	"encoding/json"
	"math"
	"testing"

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
	if text, err := progress.EncodeJSON(math.NaN()); err == nil {
		t.Errorf("encoded NaN = %q, want an error", text)
	}
}
