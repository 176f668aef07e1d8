package kopftest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
)

// RunUntilQuiet asks the tracker at each poll. The answers must not copy the calls that have ended, because their number grows during the test.
func TestTracker_AnswersWithoutCopyingCalls(t *testing.T) {
	w := newTracker()
	obj := &corev1.ConfigMap{}
	obj.Name, obj.UID = "one", "u"
	call := func(id string) func(error) {
		return w.HandlerStarting(context.Background(), &invoke.Request{ID: id, Object: obj})
	}
	for i := range 1000 {
		call(fmt.Sprint("ended-", i))(errors.New("no"))
	}
	if allocs := testing.AllocsPerRun(10, func() { w.runningForeground(); w.callTransitions() }); allocs > 0 {
		t.Errorf("%.0f allocations without a running call, want none", allocs)
	}
	if got, want := w.lastError(obj.UID), "ended-999"; !strings.Contains(got, want) {
		t.Errorf("last error = %q, want %q", got, want)
	}
	end, second := call("a"), call("b")
	if got := w.runningForeground(); len(got) != 2 || got[0].Handler != "a" || got[1].Handler != "b" {
		t.Errorf("running calls = %v, want a and b", got)
	}
	end(nil)
	if got := w.runningCalls(); len(got) != 1 || got[0].Handler != "b" {
		t.Errorf("running calls = %v, want b", got)
	}
	second(nil)
	if got, want := w.callTransitions(), 2004; len(w.runningCalls()) > 0 || got != want {
		t.Errorf("transitions = %d, want %d, and no running calls", got, want)
	}
	if n := len(w.callLog()); n != 1002 {
		t.Errorf("%d calls, want 1002", n)
	}
}
