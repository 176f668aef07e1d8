package engine

import (
	"testing"
	"unsafe"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/background"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/loopguard"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// The engine has a state for each object, so each field costs memory for all objects of the cluster. 64 bytes is a size class of the allocator: a larger state
// would take at least 80 bytes. Put data that only few objects have into objectDetails, or into a map.
func TestObjectState_Size(t *testing.T) {
	const limit = 64
	if size := unsafe.Sizeof(objectState{}); size > limit {
		t.Errorf("the state of an object has %d bytes, want at most %d", size, limit)
	}
}

func TestUnlock_DropsEmptyDetails(t *testing.T) {
	e := &Engine{committer: &commit.Committer{Writer: &patch.Writer{}}}
	for name, test := range map[string]struct {
		change func(*objectDetails)
		kept   bool
	}{
		"empty":              {func(*objectDetails) {}, false},
		"settled":            {func(d *objectDetails) { d.Settled = true }, true},
		"baselines":          {func(d *objectDetails) { d.Memory.Baselines = &cause.BaselineHistory{} }, true},
		"failed write":       {func(d *objectDetails) { d.Pending = &reconciliation{} }, true},
		"deleted":            {func(d *objectDetails) { d.Memory.FoundDeleted = true }, true},
		"reconcile handlers": {func(d *objectDetails) { d.ReconcileHandlers = map[string]*reconcileHandlerState{"a": {}} }, true},
		"dropped handlers":   {func(d *objectDetails) { d.ReconcileHandlers = map[string]*reconcileHandlerState{} }, false},
		"loops":              {func(d *objectDetails) { d.Loops = &loopguard.Loops{} }, true},
		"daemons":            {func(d *objectDetails) { d.Background = &background.State{} }, true},
	} {
		known := &objectState{}
		known.Lock()
		r := e.newReconciliation(known)
		test.change(r.details)
		r.unlock()
		if kept := known.Worker.Details != nil; kept != test.kept {
			t.Errorf("%s: the details are kept: %t, want %t", name, kept, test.kept)
		}
		if !known.TryLock() {
			t.Errorf("%s: the state is locked", name)
		}
		if again := e.newReconciliation(known); again.details == nil || test.kept && again.details != r.details {
			t.Errorf("%s: the next reconcile has other details", name)
		}
	}
}
