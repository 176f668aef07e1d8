package kopf_test

import (
	"strings"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// SEL-14, SE-46: the required verbs depend on the kind's own handlers only.
func TestCheckVerbs(t *testing.T) {
	for _, test := range []struct {
		name     string
		progress bool
		verbs    string
		want     string // part of the error; empty for no error
	}{
		{"all verbs", true, "create delete get list patch update watch", ""},
		{"no watch", false, "get list", "requires list, watch): handlers cannot observe its objects"},
		{"no watch, for handlers with progress", true, "get list", "requires list, watch)"},
		{"no list", false, "get watch patch", "requires list, watch)"},
		{"only create", false, "create", "has create"},
		{"no patch, for event handlers", false, "get list watch", ""},
		{"a definition that is being deleted", true, "delete deletecollection get list watch", ""},
		{"no patch, for handlers with progress", true, "get list watch", "requires patch): nothing can be stored on its objects"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := kopf.CheckVerbs(test.progress, strings.Fields(test.verbs)...)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "Widget: ")):
				t.Errorf("error = %v, want %q", err, test.want)
			}
		})
	}
}
