package explore

import (
	"fmt"
	"regexp"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestGenerator_MatchesPatterns(t *testing.T) {
	g := NewGenerator(1)
	for _, pattern := range []string{
		`^[a-z]([-a-z0-9]*[a-z0-9])?$`, `^\d+(s|m|h)$`, `^(red|green)-.{2,4}$`, `^v[0-9]+\.[0-9]+$`, `^x?y+z*$`, `^[^/]+$`,
	} {
		re := regexp.MustCompile(pattern)
		texts := map[string]bool{}
		for range 50 {
			text := g.value(&apiextensionsv1.JSONSchemaProps{Type: "string", Pattern: pattern}, 0).(string)
			if texts[text] = true; !re.MatchString(text) {
				t.Errorf("%q does not match %s", text, pattern)
			}
		}
		if len(texts) < 3 {
			t.Errorf("got %d different texts for %s, want at least 3", len(texts), pattern)
		}
	}
}

func TestGenerator_StaysWithinBounds(t *testing.T) {
	g := NewGenerator(1)
	two, ten, three := 2.0, 10.0, 3.0
	seen := map[string]bool{}
	for range 200 {
		n := g.value(&apiextensionsv1.JSONSchemaProps{Type: "integer", Minimum: &two, Maximum: &ten, ExclusiveMinimum: true, ExclusiveMaximum: true, MultipleOf: &three}, 0).(int64)
		if seen[fmt.Sprint(n)] = true; n <= 2 || n >= 10 || n%3 != 0 {
			t.Errorf("got %d, want a multiple of 3 between 2 and 10, exclusively", n)
		}
	}
	if len(seen) != 3 {
		t.Errorf("got the numbers %v, want three different ones", seen)
	}
}
