package kopf_test

import (
	"strings"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// Each kind is judged by itself, by what its own handlers need (SEL-14, SE-46).
func TestWhatCannotBeDoneWithAKindIsTold(t *testing.T) {
	for _, test := range []struct {
		name     string
		progress bool
		verbs    string
		want     string // a part of the error; empty: none
	}{
		{"all that there is", true, "create delete get list patch update watch", ""},
		{"no watch", false, "get list", "not all of list, watch): there is nothing that handlers could follow"},
		{"no watch, which counts first", true, "get list", "not all of list, watch)"},
		{"no list", false, "get watch patch", "not all of list, watch)"},
		{"nothing but to create", false, "create", "it has create"},
		{"no patch, for spies", false, "get list watch", ""},
		{"no patch, for handlers with progress", true, "get list watch", "not all of patch): what is handled cannot be kept on its objects"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := kopf.CheckVerbs(test.progress, strings.Fields(test.verbs)...)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "Widget: ")):
				t.Errorf("%v, and not %q", err, test.want)
			}
		})
	}
}
