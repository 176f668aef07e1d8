package kinds

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/operator"
)

// An operator that ends before its first discovery has succeeded waits for nothing any more: its health checks ignore the functions of OnCleanup.
func TestRuntime_EndStart(t *testing.T) {
	r := NewRuntime(nil)
	r.BeginStart()
	r.discovering.Store(true)
	if len(r.NotReady()) != 1 {
		t.Error("a starting operator is ready")
	}
	if r.EndStart(); len(r.NotReady()) > 0 {
		t.Errorf("an ended operator waits: %v", r.NotReady())
	}
}

func TestRuntime_NamesKindsThatHaveNotSynced(t *testing.T) {
	r := NewRuntime(nil)
	pods, nodes := corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("Node")
	forget := r.Units.Keep(pods, nodes)
	r.Units.Set(nodes, operator.Serving)
	if errs := r.NotReady(); !r.IsStarting() || len(errs) != 1 || errs[0].Error() != "Pod: the cache of the kind has not synced yet" {
		t.Errorf("the operator waits for %v", errs)
	}
	if r.Units.Set(pods, operator.Serving); r.IsStarting() || len(r.NotReady()) > 0 {
		t.Errorf("the operator waits for %v", r.NotReady())
	}
	if forget(); len(r.Units.All()) > 0 {
		t.Error("an ended operator has kinds")
	}
}
