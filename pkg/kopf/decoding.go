package kopf

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/kopf-runtime/kopf-runtime/internal/decoding"
	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/watchcheck"
)

// NewCache creates the cache of a manager. Set it in the options of the manager:
//
//	mgr, err := ctrl.NewManager(config, ctrl.Options{NewCache: kopf.NewCache})
//
// The cache is a cache of controller-runtime that leaves out stored objects that do not decode into their Go type, for example an object with the value 1.5
// for an int32. All other objects are cached and handled. With another cache, one such object stops the operator: no object of the kind is
// delivered. The caches that an operator creates itself (see [WithKindCaches]) always leave out such objects.
//
// The operator logs each such object, posts a Warning with the reason Undecodable about it, and counts it in the metric kopf_undecodable_objects.
// [Operator.Readyz] and [Operator.Explain] name it. Reading it from the cache fails with an error other than NotFound, and lists lack it. If the cache has
// contained the object before, the object leaves the scope of the operator. When the object is repaired, the operator handles it again.
//
// The cache decodes nothing twice, except for kinds with such objects, and for the watches of Go types with their own UnmarshalJSON.
func NewCache(config *rest.Config, options cache.Options) (cache.Cache, error) {
	return decoding.New(config, options)
}

// undecodableReason is the reason of the Events about objects that do not decode.
const undecodableReason = "Undecodable"

// unsyncedAfter is the time after which the operator looks for the reason why a cache has not synced.
const unsyncedAfter = 15 * time.Second

// A decodedKind is a kind whose objects are decoded into a Go type.
type decodedKind struct {
	gvk       schema.GroupVersionKind
	name      string // name for metrics
	obj       client.Object
	newObject func() any
}

// decodedKinds returns the kinds and related kinds of a group that have Go types.
func (g *kindGroup) decodedKinds(resources []resource) (kinds []decodedKind) {
	add := func(gvk schema.GroupVersionKind, name string, obj client.Object) {
		isKnown := slices.ContainsFunc(kinds, func(k decodedKind) bool { return k.gvk == gvk })
		if newObject := decoding.Constructor(obj); newObject != nil && !isKnown {
			kinds = append(kinds, decodedKind{gvk, name, obj, newObject})
		}
	}
	for _, e := range g.engines {
		add(e.GVK, e.Name, e.New())
	}
	for _, r := range resources {
		for _, c := range r.relatedKinds() {
			add(c.gvk, g.operator.controllerNameOf(strings.ToLower(c.gvk.Kind)), c.watched())
		}
	}
	return kinds
}

// undecodable contains what the operator knows of objects that do not decode.
type undecodable struct {
	own *decoding.Faults // of the caches of the operator

	mu       sync.Mutex
	shared   *decoding.Faults // of the cache of the manager; nil if it does not leave out objects, or before the start
	kinds    map[*kindGroup][]decodedKind
	stuck    map[stuckKey][]decoding.Object     // objects that block a cache
	reported map[undecodableKey]decoding.Object // only for the goroutine of reportUndecodable
	changed  chan struct{}                      // has an element if the kinds or the stuck objects have changed
}

// stuckKey identifies the check that has found objects.
type stuckKey struct {
	gvk       schema.GroupVersionKind
	namespace string
	watching  bool // the objects block a watch, and not the start
}

// undecodableKey identifies an object and its fault.
type undecodableKey struct {
	gvk   schema.GroupVersionKind
	uid   types.UID
	fault string
}

func keyOf(obj decoding.Object) undecodableKey {
	return undecodableKey{obj.GVK, obj.UID, obj.Fault.Error()}
}

func newUndecodable() *undecodable {
	return &undecodable{
		own:   decoding.NewFaults(),
		kinds: map[*kindGroup][]decodedKind{}, stuck: map[stuckKey][]decoding.Object{}, changed: make(chan struct{}, 1),
	}
}

// useCache adds the objects that the cache of the manager leaves out.
func (u *undecodable) useCache(c cache.Cache) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if tolerant, ok := c.(interface{ Faults() *decoding.Faults }); ok {
		u.shared = tolerant.Faults()
	}
}

func (u *undecodable) notify() {
	select {
	case u.changed <- struct{}{}:
	default: // the previous change was not received yet
	}
}

// addKinds adds the kinds of a group until remove is called.
func (u *undecodable) addKinds(g *kindGroup) (remove func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.kinds[g] = g.decoded
	u.notify()
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		maps.DeleteFunc(u.stuck, func(key stuckKey, _ []decoding.Object) bool {
			return slices.ContainsFunc(g.decoded, func(kind decodedKind) bool { return kind.gvk == key.gvk })
		})
		delete(u.kinds, g)
		u.notify()
	}
}

// setStuck sets the objects that a check has found.
func (u *undecodable) setStuck(key stuckKey, objects []decoding.Object) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(objects) == 0 && len(u.stuck[key]) == 0 {
		return
	}
	if u.stuck[key] = objects; len(objects) == 0 {
		delete(u.stuck, key)
	}
	u.notify()
}

// find returns a kind of the operator.
func (u *undecodable) find(gvk schema.GroupVersionKind) (kind decodedKind, found bool) {
	for _, kinds := range u.kinds {
		for _, kind := range kinds {
			if kind.gvk == gvk {
				return kind, true
			}
		}
	}
	return kind, false
}

// blocked returns an error for each kind whose cache cannot sync because of objects that do not decode.
func (u *undecodable) blocked() (errs []error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, objects := range u.stuck {
		if !key.watching { // the check of the watch reports the others
			errs = append(errs, blockedError(objects))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}

// blockedError returns the error for a kind whose objects are not handled because some of them do not decode.
func blockedError(objects []decoding.Object) error {
	return fmt.Errorf("%s: no object of the kind is handled, because the cache of the manager cannot decode %s: correct or delete it, "+
		"or set NewCache: kopf.NewCache in the options of the manager to handle the other objects", objects[0].GVK.Kind, listed(objects))
}

// maxListedObjects is the number of objects in an error.
const maxListedObjects = 5

// listed describes some objects and their faults.
func listed(objects []decoding.Object) string {
	var parts []string
	for i, obj := range objects {
		if i == maxListedObjects {
			parts = append(parts, fmt.Sprintf("and %d more", len(objects)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%s (%v)", obj.Name(), obj.Fault))
	}
	return strings.Join(parts, ", ")
}

// leftOut returns the objects of the kinds and related kinds that caches leave out. The channels ownChanged and sharedChanged are closed after a change.
func (u *undecodable) leftOut() (objects []decoding.Object, ownChanged, sharedChanged <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	objects, ownChanged = u.own.All()
	if u.shared != nil {
		var shared []decoding.Object
		shared, sharedChanged = u.shared.All()
		objects = append(objects, shared...)
	}
	return slices.DeleteFunc(objects, func(obj decoding.Object) bool {
		_, found := u.find(obj.GVK)
		return !found
	}), ownChanged, sharedChanged
}

// blocking returns the objects that block caches.
func (u *undecodable) blocking() (objects []decoding.Object) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, stuck := range u.stuck {
		objects = append(objects, stuck...)
	}
	return objects
}

// reportUndecodable reports objects that do not decode until the context is cancelled.
func (o *Operator) reportUndecodable(ctx context.Context) {
	counted := map[string]bool{}
	defer func() {
		for name := range counted {
			metrics.UndecodableObjects.DeleteLabelValues(name)
		}
	}()
	for ctx.Err() == nil {
		leftOut, ownChanged, sharedChanged := o.watches.undecodable.leftOut()
		o.reportEach(append(leftOut, o.watches.undecodable.blocking()...), counted)
		select {
		case <-o.watches.undecodable.changed:
		case <-ownChanged:
		case <-sharedChanged:
		case <-ctx.Done():
		}
	}
}

// reportEach logs and posts objects that were not reported yet, logs those that are gone, and counts them in the metric.
func (o *Operator) reportEach(objects []decoding.Object, counted map[string]bool) {
	u := o.watches.undecodable
	numbers, present, unresolved := map[string]int{}, map[undecodableKey]decoding.Object{}, map[types.UID]bool{}
	for _, obj := range objects {
		u.mu.Lock()
		kind, _ := u.find(obj.GVK)
		u.mu.Unlock()
		numbers[kind.name]++
		unresolved[obj.UID] = true
		if _, reported := u.reported[keyOf(obj)]; !reported {
			o.reportOne(obj, kind)
		}
		present[keyOf(obj)] = obj
	}
	for _, obj := range u.reported {
		u.mu.Lock()
		_, handled := u.find(obj.GVK) // false when the operator or the controller of the kind stops
		u.mu.Unlock()
		if handled && !unresolved[obj.UID] {
			o.mgr.GetLogger().Info("An object that did not decode was repaired, was deleted, or has left the scope", "kind", obj.GVK.Kind, "namespace", obj.Key.Namespace, "name", obj.Key.Name)
		}
	}
	u.reported = present
	for name := range counted {
		metrics.UndecodableObjects.WithLabelValues(name).Set(0)
	}
	for name, n := range numbers {
		counted[name] = true
		metrics.UndecodableObjects.WithLabelValues(name).Set(float64(n))
	}
}

func (o *Operator) reportOne(obj decoding.Object, kind decodedKind) {
	o.mgr.GetLogger().Error(obj.Fault, "An object does not decode into its Go type; it is not handled",
		"kind", obj.GVK.Kind, "namespace", obj.Key.Namespace, "name", obj.Key.Name, "goType", fmt.Sprintf("%T", kind.obj))
	engines := o.engines.All()
	if len(engines) == 0 {
		return
	}
	e := engines[0]
	if i := slices.IndexFunc(engines, func(e *engine.Engine) bool { return e.GVK == obj.GVK }); i >= 0 {
		e = engines[i]
	}
	e.WarnAbout(obj.Metadata(), undecodableReason, fmt.Sprintf("the operator does not handle the object, because it does not decode into %T: %v", kind.obj, obj.Fault))
}

// notReadyForObjects returns errors if there are objects that the operator cannot handle. An operator with admission handlers is ready nevertheless:
// otherwise, the API server could not reach the handlers, and no client could repair the objects.
func (o *Operator) notReadyForObjects() (errs []error) {
	if errs := o.watches.undecodable.blocked(); len(errs) > 0 {
		return errs
	}
	if o.servesAdmission {
		return nil
	}
	leftOut, _, _ := o.watches.undecodable.leftOut()
	kinds := map[string][]decoding.Object{}
	for _, obj := range leftOut {
		kinds[obj.GVK.Kind] = append(kinds[obj.GVK.Kind], obj)
	}
	for kind, objects := range kinds {
		errs = append(errs, fmt.Errorf("%s: objects that do not decode into their Go type are not handled: %s", kind, listed(objects)))
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}

// isTolerant reports whether the cache of the group leaves out objects that do not decode.
func (g *kindGroup) isTolerant() bool {
	_, ok := g.cache.(interface{ Faults() *decoding.Faults })
	return ok
}

// explainUnsynced looks for objects that do not decode until all caches of the group have synced. It does so only if this takes long.
func (g *kindGroup) explainUnsynced(ctx context.Context) {
	if g.isTolerant() {
		return
	}
	for wait := unsyncedAfter; ; wait *= 2 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		if g.findBlocking(ctx) {
			return
		}
	}
}

// findBlocking looks for objects that block the caches of kinds that have not synced. It returns true if all caches have synced.
func (g *kindGroup) findBlocking(ctx context.Context) (synced bool) {
	synced = true
	for _, kind := range g.decoded {
		informer, err := g.cache.GetInformer(ctx, kind.obj, cache.BlockUntilSynced(false))
		if err != nil || informer.HasSynced() {
			g.operator.watches.undecodable.setStuck(stuckKey{gvk: kind.gvk}, nil)
			continue
		}
		synced = false
		found := g.operator.findUndecodable(ctx, kind, watchcheck.Namespaces(informer), func() bool { return !informer.HasSynced() })
		g.operator.watches.undecodable.setStuck(stuckKey{gvk: kind.gvk}, found)
	}
	return synced
}

// decodingCheck returns the check whether the watch of a kind is blocked by objects that do not decode. It returns nil if nothing can block the watch.
func (g *kindGroup) decodingCheck(gvk schema.GroupVersionKind) func(ctx context.Context, namespace string, missesChanges bool) error {
	i := slices.IndexFunc(g.decoded, func(kind decodedKind) bool { return kind.gvk == gvk })
	if i < 0 || g.isTolerant() {
		return nil
	}
	return func(ctx context.Context, namespace string, missesChanges bool) error {
		key, found := stuckKey{gvk, namespace, true}, []decoding.Object(nil)
		if missesChanges {
			found = g.operator.findUndecodable(ctx, g.decoded[i], []string{namespace}, func() bool { return true })
		}
		if g.operator.watches.undecodable.setStuck(key, found); len(found) == 0 {
			return nil
		}
		return blockedError(found)
	}
}

// findUndecodable lists the objects of a kind in some namespaces, or in the cluster, and returns those that do not decode.
func (o *Operator) findUndecodable(ctx context.Context, kind decodedKind, namespaces []string, proceed func() bool) (all []decoding.Object) {
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		found, err := decoding.Find(ctx, o.mgr.GetAPIReader(), kind.gvk, kind.newObject, proceed, client.InNamespace(namespace))
		if err != nil && ctx.Err() == nil {
			o.mgr.GetLogger().V(1).Info("Failed to look for objects that do not decode", "kind", kind.gvk.Kind, "namespace", namespace, "error", err.Error())
		}
		all = append(all, found...)
	}
	return all
}

// explainStartError adds the objects that block a cache to the error of a controller.
func (g *kindGroup) explainStartError(err error) error {
	if err == nil || g.isTolerant() {
		return err
	}
	u := g.operator.watches.undecodable
	if len(u.blocked()) == 0 { // the start has failed before explainUnsynced
		ctx, cancel := context.WithTimeout(context.Background(), unsyncedAfter)
		defer cancel()
		g.findBlocking(ctx)
	}
	return errors.Join(append(u.blocked(), err)...)
}

// CheckObjects lists all objects of the kinds and related kinds with Go types, and returns an error for each object that does not decode. Call it before a
// new version of an operator is deployed, for example with a flag of its binary. It reads from the API server, calls no handlers, and needs the permission
// to list the kinds. The operator and its manager need not run.
func (o *Operator) CheckObjects(ctx context.Context) error {
	kinds, err := o.engineKinds()
	if err != nil {
		return err
	}
	var errs []error
	checked := map[schema.GroupVersionKind]bool{}
	check := func(gvk schema.GroupVersionKind, obj client.Object) {
		newObject := decoding.Constructor(obj)
		if newObject == nil || checked[gvk] {
			return
		}
		checked[gvk] = true
		namespaces := o.cachedNamespaces(gvk, false)
		if namespaced, err := apiutil.IsGVKNamespaced(gvk, o.mgr.GetRESTMapper()); err != nil || !namespaced || len(namespaces) == 0 {
			namespaces = []string{""}
		}
		for _, namespace := range namespaces {
			found, err := decoding.Find(ctx, o.mgr.GetAPIReader(), gvk, newObject, func() bool { return true }, client.InNamespace(namespace))
			if err != nil {
				errs = append(errs, err)
			}
			for _, obj := range found {
				errs = append(errs, obj)
			}
		}
	}
	for i, kind := range kinds {
		check(kind.GVK, kind.New())
		for _, c := range o.resources[i].relatedKinds() {
			check(c.gvk, c.watched())
		}
	}
	return errors.Join(errs...)
}
