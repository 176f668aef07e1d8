package garbagecollection

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// callLog records handler calls in order. It is safe for concurrent use.
type callLog struct {
	mu      sync.Mutex
	entries []entry
}

type entry struct {
	object, what string
	changes      []string // changed paths of an update
}

func (d *callLog) record(object, what string, changes ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = append(d.entries, entry{object, what, changes})
}

// of returns the calls for an object, in order.
func (d *callLog) of(obj client.Object) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var calls []string
	for _, e := range d.entries {
		if e.object == obj.GetName() {
			calls = append(calls, e.what)
		}
	}
	return calls
}

func (d *callLog) count(obj client.Object, what string) (n int) {
	for _, call := range d.of(obj) {
		if call == what {
			n++
		}
	}
	return n
}

// changes returns the changed paths of all updates of objects with a name prefix.
func (d *callLog) changes(prefix string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var paths []string
	for _, e := range d.entries {
		if strings.HasPrefix(e.object, prefix) {
			paths = append(paths, e.changes...)
		}
	}
	return paths
}

func (d *callLog) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = nil
}

func (d *callLog) size() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.entries)
}

// retryDelay is the delay of a failed handler. It is long enough for Kubernetes to copy the record.
const retryDelay = 500 * time.Millisecond

// succeedOnRetry returns a handler that records its calls as "reason#attempt" and succeeds at the second attempt.
func succeedOnRetry[T client.Object](d *callLog) kopf.Handler[T] {
	return func(_ context.Context, req *kopf.Request[T]) error {
		var changes []string
		if req.Reason == kopf.ReasonUpdate {
			for _, change := range req.Diff {
				changes = append(changes, change.Path.String())
			}
		}
		d.record(req.Object.GetName(), fmt.Sprintf("%s#%d", req.Reason, req.Attempt.Number), changes...)
		if req.Attempt.Number == 0 && req.Reason != kopf.ReasonResume {
			return kopf.Temporary(nil, retryDelay)
		}
		return nil
	}
}

// all returns a resource with one handler for each cause.
func all[T client.Object](obj T, d *callLog) *kopf.Resource[T] {
	fn := succeedOnRetry[T](d)
	return kopf.For(obj).OnCreate("created", fn).OnUpdate("updated", fn).OnResume("resumed", fn).OnDelete("deleted", fn)
}
