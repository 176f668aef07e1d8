package engine

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
)

// PausedAnnotation is the annotation that pauses one object.
const PausedAnnotation = "kopf-runtime.dev/paused"

// The condition of a paused object.
const (
	conditionPaused  = "Paused"
	reasonAnnotation = "Annotation"
)

// IsObjectPaused reports whether the annotation of an object pauses it. An object with another value than true or false is not paused.
func IsObjectPaused(obj client.Object) bool {
	paused, err := strconv.ParseBool(obj.GetAnnotations()[PausedAnnotation])
	return err == nil && paused
}

// warnAboutAnnotation logs a value of the annotation that is neither true nor false.
func warnAboutAnnotation(ctx context.Context, obj client.Object) {
	value, found := obj.GetAnnotations()[PausedAnnotation]
	if _, err := strconv.ParseBool(value); found && err != nil {
		log.FromContext(ctx).Info(`Warning: the annotation that pauses the object is ignored: set it to "true" or "false"`, "annotation", PausedAnnotation, "value", value)
	}
}

// holdPaused handles an object that its annotation pauses: it stops the daemons and timers, and reports the pause in the conditions. The cause and the records stay as they are.
func (e *Engine) holdPaused(ctx context.Context, r *reconciliation) error {
	log.FromContext(ctx).V(1).Info("The object is paused by its annotation", "annotation", PausedAnnotation)
	e.supervisor.StopAll(r.Base().GetUID(), daemons.ErrPaused)
	if r.Cause.Deleting || len(e.DeclaredConditions) == 0 {
		return nil
	}
	e.selectHandlers(ctx, r) // without a plan, the write would drop the records of the cause
	e.makePlan(ctx, r)
	r.ReportConditions(ctx)
	if len(r.Patches()) == 0 {
		return nil
	}
	_, err := r.Write(ctx)
	return err
}

// setPaused sets or removes the condition that reports the pause, for kinds that declare conditions.
func (e *Engine) setPaused(r *reconciliation, set *conditions.Set) {
	switch {
	case len(e.DeclaredConditions) == 0:
	case IsObjectPaused(r.Base()):
		set.True(conditionPaused, reasonAnnotation, "The annotation "+PausedAnnotation+" pauses the object.")
	default:
		set.Remove(conditionPaused)
	}
}

// markedObjects counts objects for a metric, such as those that annotations pause.
type markedObjects struct {
	count atomic.Int64 // without objects, note takes no lock
	mu    sync.Mutex
	keys  map[types.NamespacedName]bool
}

// note records whether the object of a key counts.
func (p *markedObjects) note(gauge *prometheus.GaugeVec, kind string, key types.NamespacedName, counts bool) {
	if !counts && p.count.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys == nil {
		p.keys = map[types.NamespacedName]bool{}
	}
	if counts {
		p.keys[key] = true
	} else {
		delete(p.keys, key)
	}
	p.count.Store(int64(len(p.keys)))
	gauge.WithLabelValues(kind).Set(float64(len(p.keys)))
}

// has reports whether the object of a key counts.
func (p *markedObjects) has(key types.NamespacedName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys[key]
}
