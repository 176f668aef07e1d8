package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/background"
	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// newDetector returns the detector of causes for the kind of the engine.
func (e *Engine) newDetector() *cause.Detector {
	return &cause.Detector{
		Name: e.Name,
		Essence: essence.Builder{
			Fields: e.Fields, Conditions: e.Conditions, FindConditionStatuses: e.conditionStatuses(), Cleaners: []essence.Cleaner{e.Baseline, e.Store, e.Pin},
		},
		Retype: e.retype,
		// Results are part of the essence if they are stored outside of the status, or if a handler watches their field.
		HasUntypedFields: len(e.Fields) > 0 || len(e.Results) > 0 && e.Results[0] != "status",
		Watched:          e.Watched,
		OwnChanges:       e.OwnChanges,
	}
}

// detect reads the stored progress and computes the cause.
func (e *Engine) detect(ctx context.Context, r *reconciliation) {
	stored := e.computeCause(ctx, r, nil)
	if len(stored) > 0 && r.Cause.Unchanged {
		r.known.Worker.Background.Drop(stored...)
	} else {
		r.edits = stored
	}
	r.known.Worker.SeenAlive = r.known.Worker.SeenAlive || !r.Cause.Deleting
}

// computeCause reads the stored progress and computes the cause. It returns the edits by daemons and timers that the object contains. unreadable receives the errors of
// stored data that cannot be decoded. If it is nil, they are logged and counted.
func (e *Engine) computeCause(ctx context.Context, r *reconciliation, unreadable func(error)) (stored []*background.Edit) {
	logger := log.FromContext(ctx)
	state, err := progress.Load(e.Store, r.Base(), e.Handlers.IDs())
	for _, id := range e.Handlers.IDs() {
		handler, _ := e.Handlers.Get(id)
		for _, earlier := range handler.EarlierIDs {
			err = errors.Join(err, state.Rename(e.Store, r.Base(), id, earlier))
		}
	}
	switch {
	case err != nil && unreadable != nil:
		unreadable(fmt.Errorf("the stored progress is unreadable and treated as absent: %w", err))
	case err != nil:
		metrics.UnreadableState.WithLabelValues(e.Name).Inc()
		logger.Info("Warning: stored progress is unreadable and taken as absent", "error", err.Error())
	}
	baseline := e.Baseline.Fetch(r.Base())
	var edits []cause.BackgroundEdit
	if state := r.known.Worker.Background; state != nil { // the baseline may lack edits by daemons and timers
		stored, edits = state.EditsIn(r.Base(), r.Content())
	}
	r.Records = state
	r.Cause = e.detector.Detect(cause.Input{
		Facts: cause.Facts{
			Gone:         r.Gone,
			Deleting:     r.Base().GetDeletionTimestamp() != nil,
			HasFinalizer: e.hasFinalizer(r.Base()),
			Initial:      !r.known.Worker.Handled && e.existedAtStart(r),
		},
		Content:  r.Content(),
		Baseline: baseline,
		Pin:      e.Pin.Fetch(r.Base()),
		Progress: state,
		History:  e.history(r, baseline),
		Edits:    edits,
		Log:      logger,

		Unreadable: unreadable,
	})
	switch r.Cause.Reset {
	case cause.RestartUpdate:
		state.Restart(string(cause.Update))
	case cause.RestartAllCauses:
		state.RestartAll()
	case cause.KeepProgress:
	}
	return stored
}

// existedAtStart reports whether an object existed when the process started. An old first listing may lack the object; the first state that the watch
// shows is then not newer than the epoch.
func (e *Engine) existedAtStart(r *reconciliation) bool {
	if r.known.ListedAtStart || e.epoch == nil || r.known.FirstVersion == "" {
		return r.known.ListedAtStart
	}
	epoch := e.epoch.versionOf(r.Base().GetNamespace())
	return epoch != "" && !objectstate.IsOlderVersion(epoch, r.known.FirstVersion)
}

// history returns what this process knows of the baselines of the object: nothing if a peer may have handled the object during a pause.
func (e *Engine) history(r *reconciliation, baseline []byte) cause.BaselineHistory {
	if r.Memory.PausesAtBaseline != e.pauses.Load() {
		return cause.BaselineHistory{}
	}
	history := r.Memory.Baselines
	if baseline != nil && history.BaselineReplaced(baseline) {
		history.Replaced = e.states.BaselineBeforeReplacement(r.Base().GetUID())
	}
	return history
}

// retype converts an essence to the Go type of the kind and back.
func (e *Engine) retype(stored map[string]any) (map[string]any, error) {
	obj, err := e.decodeEssence(stored, nil)
	if err != nil {
		return nil, err
	}
	if _, untyped := obj.(*unstructured.Unstructured); untyped {
		return stored, nil
	}
	content, err := patch.Content(obj)
	if err != nil {
		return nil, err
	}
	typed := e.detector.Essence.Build(content)
	if conditionStatuses, ok := stored[essence.ConditionsKey]; ok { // no Go type has them
		typed[essence.ConditionsKey] = conditionStatuses
	}
	return typed, nil
}

// decodeEssence converts an essence to an object. text is the encoded essence, or nil.
func (e *Engine) decodeEssence(of map[string]any, text []byte) (client.Object, error) {
	obj := e.New()
	if u, ok := obj.(*unstructured.Unstructured); ok {
		copied := (&unstructured.Unstructured{Object: of}).DeepCopy()
		delete(copied.Object, essence.ConditionsKey)
		u.Object = copied.Object
	} else {
		if text == nil {
			var err error
			if text, err = json.Marshal(of); err != nil {
				return nil, err
			}
		}
		if err := json.Unmarshal(text, obj); err != nil {
			return nil, err
		}
	}
	e.identify(obj)
	return obj, nil
}

// objectOf converts an essence to an object. It returns nil if the essence does not fit the Go type; [Engine.detect] has logged that.
func (e *Engine) objectOf(r *reconciliation, of map[string]any) client.Object {
	obj, err := e.decodeEssence(of, r.Cause.StoredTextOf(of))
	if err != nil {
		obj = nil
	} else {
		obj.SetNamespace(r.Base().GetNamespace())
		obj.SetName(r.Base().GetName())
	}
	return obj
}

// oldObject returns a copy of the object as it was last handled. It is nil if there is none, or if it is not known.
func (e *Engine) oldObject(r *reconciliation) client.Object {
	if r.old == nil && r.Cause.Old != nil {
		r.old = e.objectOf(r, r.Cause.Old)
	}
	if r.old == nil {
		return nil
	}
	return r.old.DeepCopyObject().(client.Object)
}

// handledObject returns the state that is being handled if the object was edited after the cycle began, and nil otherwise.
func (e *Engine) handledObject(r *reconciliation) client.Object {
	if r.Cause.Reason != cause.Create && r.Cause.Reason != cause.Update || r.Cause.PinnedDigest != "" || !r.Cause.IsPinned() {
		return nil
	}
	return e.objectOf(r, r.Cause.New)
}
