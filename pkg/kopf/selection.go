package kopf

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ByObject returns cache options that restrict a manager's watches with label selectors. A kind is restricted if all its handlers require
// the same labels. The API server then only sends matching objects, which saves traffic and memory.
//
//	mgr, err := ctrl.NewManager(config, ctrl.Options{Cache: cache.Options{ByObject: kopf.ByObject(databases)}})
//
// In a restricted watch, an object that loses its labels looks like a deleted one, and if this happens while the operator isn't running,
// the operator won't see it at all. That's why ByObject doesn't restrict kinds with daemons, timers, event handlers, or delete handlers
// that need a finalizer. For other kinds, it uses the matchers Present, Absent and Equal of [Label], and ignores all other matchers.
//
// The restriction applies to everything that is read from the manager's cache. You can pass all options of [New], because ByObject ignores
// those that are not resources.
func ByObject(opts ...Option) map[client.Object]cache.ByObject {
	out := map[client.Object]cache.ByObject{}
	for _, option := range opts {
		r, ok := option.(interface {
			commonRequirements() (client.Object, []labels.Requirement)
		})
		if !ok {
			continue
		}
		if obj, requirements := r.commonRequirements(); len(requirements) > 0 {
			out[obj] = cache.ByObject{Label: labels.NewSelector().Add(requirements...)}
		}
	}
	return out
}

// commonRequirements returns the kind's object, and the label requirements that all its handlers share, or nil if the watch must not be
// restricted.
func (r *Resource[T]) commonRequirements() (client.Object, []labels.Requirement) {
	all := slices.Clone(r.handlers)
	for _, x := range r.indexes {
		all = append(all, x.typedHandler)
	}
	var common []labels.Requirement
	for i, h := range all {
		if slices.Contains([]handlerKind{eventHandler, daemonHandler, timerHandler}, h.handlerKind) || h.IsMandatoryDelete() {
			return r.obj, nil
		}
		if i == 0 {
			common = h.requirements
		}
		common = slices.DeleteFunc(slices.Clone(common), func(requirement labels.Requirement) bool {
			return !slices.ContainsFunc(h.requirements, func(other labels.Requirement) bool { return requirement.Equal(other) })
		})
	}
	return r.obj, common
}
