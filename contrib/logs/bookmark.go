package logs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
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
	key := annotationKey(req.Handler)
	value := req.Object.Annotations[key]
	stored, err := parseBookmark(value, time.Now())
	if err != nil {
		log.FromContext(ctx).Info("Ignored an invalid bookmark", "annotation", key, "error", err.Error())
	}
	s, ok := o.memo.Load(ctx)
	if !ok {
		s = &state{positions: map[string]*position{}, saved: value, savedAt: time.Now()}
		if o.since != nil && len(stored) == 0 {
			s.floor = s.savedAt.Add(-*o.since).UTC()
		}
		o.memo.Store(ctx, s)
	}
	for name, p := range stored {
		if known := s.positions[name]; known == nil || p.newest().After(known.newest()) {
			s.positions[name] = p
		}
	}
	return s
}

// maxAhead is the largest difference between the clocks of a node and of the operator. A later position is not of this operator, and all lines until its
// time would be ignored. Pods whose service account may change pods can write any position.
const maxAhead = time.Hour

// parseBookmark decodes a bookmark. If a position is invalid, it ignores the bookmark.
func parseBookmark(value string, now time.Time) (map[string]*position, error) {
	if value == "" {
		return nil, nil
	}
	var stored map[string]*position
	if err := json.Unmarshal([]byte(value), &stored); err != nil {
		return nil, err
	}
	for name, p := range stored {
		switch {
		case p == nil:
			delete(stored, name)
		case len(p.Recent) > maxRecent || !slices.IsSortedFunc(p.Recent, func(a, b timestamp) int { return a.Time.Compare(b.Time) }):
			return nil, fmt.Errorf("the container %.63q has %d timestamps in a wrong order, or more than %d", name, len(p.Recent), maxRecent)
		case p.newest().After(now.Add(maxAhead)) || p.Floor.After(now.Add(maxAhead)):
			return nil, fmt.Errorf("the position of the container %.63q is more than %s in the future", name, maxAhead)
		}
	}
	return stored, nil
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
