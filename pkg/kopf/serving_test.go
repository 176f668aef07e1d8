package kopf_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/kopf-runtime/kopf-runtime/pkg/clusterevents"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// SEL-14, SE-46: the required verbs depend on the kind's own handlers only.
func TestCheckVerbs(t *testing.T) {
	kind := func() *kopf.Resource[configMap] { return kopf.For(&corev1.ConfigMap{}) }
	ignore := func(context.Context, *kopf.Request[configMap]) error { return nil }
	about := func(since time.Duration) *kopf.Resource[configMap] {
		return kind().OnEventAbout("about", clusterevents.Selector{Since: since}, func(context.Context, *kopf.Request[configMap], *corev1.Event) error { return nil })
	}
	progress, event := kind().OnCreate("create", ignore), kind().OnEvent("event", ignore)
	for _, test := range []struct {
		name     string
		resource kopf.Option
		verbs    string
		want     string // part of the error; empty for no error
	}{
		{"all verbs", progress, "create delete get list patch update watch", ""},
		{"no watch", event, "get list", "requires list, watch): handlers cannot observe its objects"},
		{"no watch, for handlers with progress", progress, "get list", "requires list, watch)"},
		{"no list", event, "get watch patch", "requires list, watch)"},
		{"only create", event, "create", "has create"},
		{"no patch, for event handlers", event, "get list watch", ""},
		{"no patch, for event handlers with WriteChanges", kind().OnEvent("event", ignore, kopf.WriteChanges()), "get list watch", "requires patch)"},
		{"no patch, for reconcile handlers", kind().OnReconcile("reconcile", ignore), "get list watch", ""},
		{"no patch, for Kubernetes Events", about(0), "get list watch", ""},
		{"no patch, for Kubernetes Events with Since", about(time.Hour), "get list watch", "requires patch): nothing can be stored on its objects"},
		{"a definition that is being deleted", progress, "delete deletecollection get list watch", ""},
		{"no patch, for handlers with progress", progress, "get list watch", "requires patch): nothing can be stored on its objects"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := kopf.CheckVerbs(test.resource, clientgoscheme.Scheme, strings.Fields(test.verbs)...)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "ConfigMap: ")):
				t.Errorf("error = %v, want %q", err, test.want)
			}
		})
	}
}
