package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
)

// deferIfPaused records a key if the operator is paused in its namespace, and reports whether the key must wait.
func (e *Engine) deferIfPaused(ctx context.Context, key types.NamespacedName) bool {
	return e.Pause != nil && e.deferKey(ctx, key, e.holdPause)
}

// deferKey records a key if it is held, and reports whether it is. It checks and records under one lock, so that every deferred key is
// found when the hold is over.
func (e *Engine) deferKey(ctx context.Context, key types.NamespacedName, held func(types.NamespacedName) Hold) bool {
	var hold Hold
	e.pause.deferred.Update(key, func(_ struct{}, found bool) (struct{}, bool) {
		hold = held(key)
		return struct{}{}, hold.isActive() || found
	})
	if hold.isActive() {
		log.FromContext(ctx).V(1).Info("The object will be handled later", "why", hold.Message)
	}
	return hold.isActive()
}

// PauseChanged must be called when a pause has begun or ended in a namespace; "" means all namespaces. It stops and restarts daemons and
// timers. When a pause is over, every object of the namespace is enqueued once, and those with deferred keys come first.
func (e *Engine) PauseChanged(namespace string) {
	begun, ended := e.pauseTransitions(namespace)
	if len(begun) > 0 {
		e.pause.count.Add(1)
		e.background.supervisor.Pause(supervisorNamespaces(begun)...)
	}
	if len(ended) > 0 {
		defer e.background.supervisor.Resume(supervisorNamespaces(ended)...)
		e.reconcileAll(ended)
	}
}

// pauseTransitions returns the namespaces in which a pause has begun or ended. They include namespaces that are watched but not configured
// in the peering, because these are paused while any other namespace is.
func (e *Engine) pauseTransitions(namespace string) (begun, ended []string) {
	all := map[string]bool{namespace: true}
	if namespace != "" {
		for _, one := range e.pause.namespaces.Keys() {
			all[one] = true
		}
		for _, obj := range e.states.List() {
			all[obj.GetNamespace()] = true
		}
	}
	for one := range all {
		e.pause.namespaces.Update(one, func(_ struct{}, before bool) (struct{}, bool) {
			paused := e.paused(one)
			switch {
			case paused && !before:
				begun = append(begun, one)
			case before && !paused:
				ended = append(ended, one)
			}
			return struct{}{}, paused
		})
	}
	return begun, ended
}

// supervisorNamespaces returns the arguments for the supervisor, where no namespace means all namespaces.
func supervisorNamespaces(namespaces []string) []string {
	if slices.Contains(namespaces, "") {
		return nil
	}
	return namespaces
}

// reconcileAll enqueues all objects of some namespaces.
func (e *Engine) reconcileAll(namespaces []string) {
	pendingEvents := map[types.NamespacedName]bool{}
	for _, key := range e.pause.deferred.Keys() {
		if !e.paused(key.Namespace) {
			pendingEvents[key] = true
			e.pause.deferred.Take(key)
		}
	}
	all := e.states.List()
	// An object with pending events may no longer match the filters of its daemons and timers. So stop them before they can resume; a
	// worker then restarts those that still match.
	for _, obj := range all {
		if pendingEvents[client.ObjectKeyFromObject(obj)] {
			e.background.supervisor.StopAll(obj.GetUID(), daemons.ErrPaused)
		}
	}
	e.states.Enqueue(0, slices.Collect(maps.Keys(pendingEvents))...)
	for _, obj := range all {
		key := client.ObjectKeyFromObject(obj)
		if supervisorNamespaces(namespaces) != nil && !slices.Contains(namespaces, key.Namespace) || pendingEvents[key] {
			continue
		}
		e.states.Enqueue(handler.LowPriority, key)
	}
}

// The condition of a paused object.
const (
	conditionPaused  = "Paused"
	reasonAnnotation = "Annotation"
)

func (*Engine) checkAnnotation(s subject) Hold { return HoldByAnnotation(s.obj) }

// HoldByAnnotation returns the hold of an object if its annotation pauses it, and the zero Hold otherwise. It works without an operator.
func HoldByAnnotation(obj client.Object) Hold {
	if IsObjectPaused(obj) {
		return Hold{Reason: HeldByAnnotation, Message: fmt.Sprintf("the annotation %s pauses the object", PausedAnnotation), ByUser: true}
	}
	return Hold{}
}

// obeyAnnotation holds a paused object: it stops its daemons and timers, and reports the pause in the conditions. The cause and the records
// stay as they are.
func (e *Engine) obeyAnnotation(ctx context.Context, r *reconciliation) (Hold, error) {
	if _, annotated := r.draft.Base().GetAnnotations()[PausedAnnotation]; !annotated {
		return Hold{}, nil
	}
	if !IsObjectPaused(r.draft.Base()) {
		warnAboutAnnotation(ctx, r.draft.Base())
		return Hold{}, nil
	}
	log.FromContext(ctx).V(1).Info("The object is paused by its annotation", "annotation", PausedAnnotation)
	e.background.supervisor.StopAll(r.draft.Base().GetUID(), daemons.ErrPaused)
	e.leaveRollout(client.ObjectKeyFromObject(r.draft.Base()))
	return Hold{Reason: HeldByAnnotation}, e.reportObjectPause(ctx, r)
}

// warnAboutAnnotation logs an annotation value that is neither true nor false.
func warnAboutAnnotation(ctx context.Context, obj client.Object) {
	value := obj.GetAnnotations()[PausedAnnotation]
	if _, err := strconv.ParseBool(value); err != nil {
		log.FromContext(ctx).Info(`Ignoring the annotation that pauses the object, because its value is invalid: set it to "true" or "false"`, "annotation", PausedAnnotation, "value", value)
	}
}

// reportObjectPause reports in the conditions that the annotation pauses the object.
func (e *Engine) reportObjectPause(ctx context.Context, r *reconciliation) error {
	if r.session.Cause.Deleting || len(e.DeclaredConditions) == 0 {
		return nil
	}
	e.selectHandlers(ctx, r) // without a plan, the write would drop the cause's records
	e.makePlan(ctx, r)
	e.reportConditions(ctx, r)
	if len(r.draft.Patches()) == 0 {
		return nil
	}
	_, err := r.write(ctx)
	return err
}

// holdPause holds a namespace's objects while the operator is paused there.
func (e *Engine) holdPause(key types.NamespacedName) Hold {
	if paused, why := e.Pause.Paused(key.Namespace); paused {
		return Hold{Reason: HeldByPause, Message: "the operator is paused: " + why}
	}
	return Hold{}
}
