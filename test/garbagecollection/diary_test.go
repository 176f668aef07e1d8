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

// A diary notes for each object which handlers were called for it, in order.
type diary struct {
	mu      sync.Mutex
	entries []entry
}

type entry struct {
	object, what string
	changes      []string // paths
}

func (d *diary) note(object, what string, changes ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = append(d.entries, entry{object, what, changes})
}

// of are the calls for an object.
func (d *diary) of(obj client.Object) []string {
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

func (d *diary) count(obj client.Object, what string) (n int) {
	for _, call := range d.of(obj) {
		if call == what {
			n++
		}
	}
	return n
}

// changes are the paths of all updates of objects whose names begin so.
func (d *diary) changes(prefix string) []string {
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

func (d *diary) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = nil
}

func (d *diary) size() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.entries)
}

// patience is how long a handler that has failed waits: long enough for its record to be copied by Kubernetes.
const patience = 500 * time.Millisecond

// secondTime is a handler that notes its calls, as "reason#attempt", and succeeds with the second.
func secondTime[T client.Object](d *diary) kopf.Handler[T] {
	return func(_ context.Context, req *kopf.Request[T]) error {
		var changes []string
		if req.Reason == kopf.ReasonUpdate {
			for _, change := range req.Diff {
				changes = append(changes, change.Path.String())
			}
		}
		d.note(req.Object.GetName(), fmt.Sprintf("%s#%d", req.Reason, req.Attempt.Number), changes...)
		if req.Attempt.Number == 0 && req.Reason != kopf.ReasonResume {
			return kopf.Temporary(nil, patience)
		}
		return nil
	}
}

// all handles everything there is.
func all[T client.Object](obj T, d *diary) *kopf.Resource[T] {
	fn := secondTime[T](d)
	return kopf.For(obj).OnCreate("created", fn).OnUpdate("updated", fn).OnResume("resumed", fn).OnDelete("deleted", fn)
}
