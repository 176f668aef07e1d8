package progress

import (
	"encoding/base64"
	"strings"
	"testing"

	"golang.org/x/crypto/blake2b"
)

func TestHashSuffix(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"KEY-07 an empty name", "", "-EnHPJQ"},
		{"KEY-07 abc", "abc", "-Y5BiSA"},
		{"KEY-07 y×64", strings.Repeat("y", 64), "-0d251g"},
		{"KEY-07 z×64", strings.Repeat("z", 64), "-E7wvIA"},
		{"KEY-07 a plus becomes a minus, a slash a dot", strings.Repeat("fn", 323), "-Az-r.g"},
		{"KEY-09 the bytes of UTF-8", strings.Repeat("日", 47), "-RcXRgw"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := hashSuffix(test.text)
			if got != test.want {
				t.Errorf("hashSuffix = %q, want %q", got, test.want)
			}
			if len(got) != 7 || !strings.Contains("AQgw", got[6:]) {
				t.Errorf("KEY-07: suffix = %q, want 7 characters that end with A, Q, g or w", got)
			}
		})
	}
}

func TestHashSuffix_IsNotATruncatedDigest(t *testing.T) {
	whole := blake2b.Sum512([]byte("abc"))
	cut := "-" + strings.TrimRight(base64.StdEncoding.EncodeToString(whole[:4]), "=")
	if got := hashSuffix("abc"); got == cut {
		t.Errorf("KEY-08: suffix = %q, want no prefix of a longer digest", got)
	}
}
