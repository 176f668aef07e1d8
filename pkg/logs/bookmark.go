package logs

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// writeTimeout limits the time of a write, so that the daemon ends soon after it was stopped.
const writeTimeout = 3 * time.Second

// A state holds the positions in the logs of a pod. It exists until the pod is deleted or the process ends.
type state struct {
	positions map[string]*position // by container
	floor     time.Time            // the daemon ignores lines up to this time, see Since
	saved     string               // value of the annotation
	savedAt   time.Time            // time of the last write, or of the start
}

// loadState returns the state in memory, or a new state. It replaces positions by newer positions of the bookmark, because another process can have
// written the bookmark during a pause.
func loadState(ctx context.Context, o *options, req *kopf.Request[*corev1.Pod]) *state {
	value := req.Object.Annotations[annotationKey(req.Handler)]
	s, ok := o.memo.Load(ctx)
	if !ok {
		s = &state{positions: map[string]*position{}, saved: value, savedAt: time.Now()}
		if o.since != nil && value == "" {
			s.floor = s.savedAt.Add(-*o.since).UTC()
		}
		o.memo.Store(ctx, s)
	}
	if value == "" {
		return s
	}
	var stored map[string]*position
	if err := json.Unmarshal([]byte(value), &stored); err != nil {
		log.FromContext(ctx).Info("Ignored an invalid bookmark", "annotation", annotationKey(req.Handler), "error", err.Error())
		return s
	}
	for name, p := range stored {
		if known := s.positions[name]; p != nil && (known == nil || p.newest().After(known.newest())) {
			s.positions[name] = p
		}
	}
	return s
}

// position returns the position in the log of a container.
func (s *state) position(name string) *position {
	if s.positions[name] == nil {
		s.positions[name] = &position{Floor: s.floor}
	}
	return s.positions[name]
}

// save writes the bookmark if it has changed.
func (s *state) save(ctx context.Context, req *kopf.Request[*corev1.Pod]) {
	s.savedAt = time.Now()
	handled := map[string]*position{}
	for name, p := range s.positions {
		if !p.newest().IsZero() {
			handled[name] = p
		}
	}
	value, err := json.Marshal(handled)
	if isEmpty := len(handled) == 0 && s.floor.IsZero(); err != nil || isEmpty || string(value) == s.saved {
		return
	}
	key, pod := annotationKey(req.Handler), req.Object
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         pod.UID, // the API server rejects the patch if the pod was created again
		"annotations": map[string]string{key: string(value)},
	}})
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		target := &corev1.Pod{}
		target.Namespace, target.Name = pod.Namespace, pod.Name
		err = req.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch))
	}
	switch {
	case err == nil:
		s.saved = string(value)
	case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
		log.FromContext(ctx).Info("Failed to write the bookmark; retrying after the interval", "error", err.Error())
	}
}

// annotationKey returns the key of the bookmark of a handler.
func annotationKey(id string) string { return validation.AnnotationKey("logs.", id) }
