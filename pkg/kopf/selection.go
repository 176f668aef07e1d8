package kopf

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
)

// ByObject restricts the watches of a manager on the server, for kinds all whose handlers agree on labels:
// objects without them are neither sent nor cached.
//
//	mgr, err := ctrl.NewManager(config, ctrl.Options{Cache: cache.Options{ByObject: kopf.ByObject(databases)}})
//
// A restricted watch cannot tell an object that has lost its labels from one that is deleted, nor does it
// tell of objects that have lost them while the operator was down. So kinds are left out which have handlers
// that need to know: those for deletions that hold objects with a finalizer, daemons and timers, and OnEvent. Only Present,
// Absent and Equal can be asked of the server. All clients of the manager see only those objects, too. Options that are no resources
// are passed over, so that all those of [New] can be given.
func ByObject(resources ...Option) map[client.Object]cache.ByObject {
	out := map[client.Object]cache.ByObject{}
	for _, option := range resources {
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

// commonRequirements are the labels that all handlers ask for; none if the watch must not be restricted.
func (r *Resource[T]) commonRequirements() (client.Object, []labels.Requirement) {
	all := slices.Clone(r.handlers)
	for _, x := range r.indexes {
		all = append(all, x.typedHandler)
	}
	var common []labels.Requirement
	for i, h := range all {
		if slices.Contains([]handlerKind{eventHandler, daemonHandler, timerHandler}, h.handlerKind) || h.NeedsFinalizer() {
			return r.obj, nil
		}
		if i == 0 {
			common = h.requirements
		}
		common = slices.DeleteFunc(slices.Clone(common), func(one labels.Requirement) bool {
			return !slices.ContainsFunc(h.requirements, func(other labels.Requirement) bool { return one.Equal(other) })
		})
	}
	return r.obj, common
}

// require notes what can be asked of the server about a label.
func (d *declaration) addRequirements(key string, m []filter.Matcher) {
	all := formsOf(m)
	if len(all) == 0 {
		all = append(all, filter.Present.Form())
	}
	for _, one := range all {
		var requirement *labels.Requirement
		var err error
		switch text, isText := one.Equal.(string); {
		case one.IsPresent():
			requirement, err = labels.NewRequirement(key, selection.Exists, nil)
		case one.IsAbsent():
			requirement, err = labels.NewRequirement(key, selection.DoesNotExist, nil)
		case one.HasEqual && isText:
			requirement, err = labels.NewRequirement(key, selection.Equals, []string{text})
		default:
			continue
		}
		if err == nil {
			d.requirements = append(d.requirements, *requirement)
		}
	}
}
