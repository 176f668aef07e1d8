package engine

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// newDetector returns the detector of causes for the kind of the engine.
func (e *Engine) newDetector() *cause.Detector {
	return &cause.Detector{
		Name: e.Name,
		Essence: essence.Builder{
			Fields: e.Fields, Conditions: e.Conditions, FindConditionStatuses: e.statuses(), Cleaners: []essence.Cleaner{e.Baseline, e.Store, e.Pin},
		},
		Retype: e.retype,
		// Results are part of the essence if they are stored outside of the status, or if a handler watches their field.
		HasUntypedFields: len(e.Fields) > 0 || len(e.Results) > 0 && e.Results[0] != "status",
		Watched:          e.Watched,
		OwnChanges:       e.OwnChanges,
	}
}

// detect reads the stored progress and computes the cause.
func (e *Engine) detect(ctx context.Context, c *cycle) {
	logger := log.FromContext(ctx)
	state, err := progress.Load(e.Store, c.before, e.Handlers.IDs())
	if err != nil {
		metrics.UnreadableState.WithLabelValues(e.Name).Inc()
		logger.Info("Warning: stored progress is unreadable and taken as absent", "error", err.Error())
	}
	baseline := e.Baseline.Fetch(c.before)
	stored, edits := c.visibleEdits()
	c.state = state
	c.cause = e.detector.Detect(cause.Input{
		Facts: cause.Facts{
			Gone:         c.gone,
			Deleting:     c.before.GetDeletionTimestamp() != nil,
			HasFinalizer: e.holds(c.before),
			Initial:      e.existed(c.memory) && !c.memory.Worker.Handled,
		},
		Content:  c.content,
		Baseline: baseline,
		Pin:      e.Pin.Fetch(c.before),
		Progress: state,
		History:  e.history(c, baseline),
		Edits:    edits,
		Log:      logger,
	})
	if c.cause.Unchanged {
		c.dropEdits(stored) // the stored baseline contains them
	} else {
		c.absorbed = stored
	}
	switch c.cause.Reset {
	case cause.RestartUpdate:
		state.Restart(string(cause.Update))
	case cause.RestartAllCauses:
		state.RestartAll()
	case cause.KeepProgress:
	}
	c.memory.Worker.SeenAlive = c.memory.Worker.SeenAlive || !c.cause.Deleting
}

// history returns what this process knows of the baselines of the object: nothing if a peer may have handled the object during a pause.
func (e *Engine) history(c *cycle, baseline []byte) cause.History {
	if c.memory.Worker.PausesAtBaseline != e.pauses.Load() {
		return cause.History{}
	}
	history := c.memory.Worker.Baselines
	if baseline != nil && history.IsReplaced(baseline) {
		history.Replaced = e.states.BaselineBeforeReplacement(c.before.GetUID())
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
	if statuses, ok := stored[essence.ConditionsKey]; ok { // no Go type has them
		typed[essence.ConditionsKey] = statuses
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
