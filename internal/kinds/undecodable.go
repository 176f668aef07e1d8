package kinds

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
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/decoding"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/watchcheck"
)

// undecodableReason is the reason of the Events about objects that don't decode.
const undecodableReason = "Undecodable"

// unsyncedAfter is how long a cache may take to sync before the operator looks for a reason.
const unsyncedAfter = 15 * time.Second

// A decodedKind is a kind whose objects are decoded into a Go type.
type decodedKind struct {
	gvk       schema.GroupVersionKind
	name      string // for metrics
	obj       client.Object
	newObject func() any
}

// decodedKinds returns the unit's kind and related kinds, if they have Go types.
func (u *Unit) decodedKinds() (kinds []decodedKind) {
	add := func(gvk schema.GroupVersionKind, name string, obj client.Object) {
		if newObject := decoding.Constructor(obj); newObject != nil {
			kinds = append(kinds, decodedKind{gvk, name, obj, newObject})
		}
	}
	add(u.engine.GVK, u.engine.Name, u.engine.New())
	for _, c := range u.related {
		add(c.GVK, ControllerName(u.runtime.Manager, strings.ToLower(c.GVK.Kind)), c.watched())
	}
	return kinds
}

// undecodable is what the operator knows about objects that don't decode.
type undecodable struct {
	own *decoding.Faults // of the operator's own caches

	mu       sync.Mutex
	shared   *decoding.Faults // of the manager's cache; nil before the start, and if it doesn't leave out objects
	kinds    map[*Unit][]decodedKind
	stuck    map[stuckKey][]decoding.Object     // objects that block a cache
	reported map[undecodableKey]decoding.Object // only for the goroutine of ReportUndecodable
	changed  chan struct{}                      // has an element if the kinds or the stuck objects have changed
}

// stuckKey identifies the check that found objects.
type stuckKey struct {
	gvk       schema.GroupVersionKind
	namespace string
	watching  bool // the objects block a watch instead of the start
}

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
		kinds: map[*Unit][]decodedKind{}, stuck: map[stuckKey][]decoding.Object{}, changed: make(chan struct{}, 1),
	}
}

// useCache adds the objects that the manager's cache leaves out.
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

// addKinds adds a unit's kinds until remove is called.
func (u *undecodable) addKinds(of *Unit) (remove func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.kinds[of] = of.decoded
	u.notify()
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		maps.DeleteFunc(u.stuck, func(key stuckKey, _ []decoding.Object) bool {
			return slices.ContainsFunc(of.decoded, func(kind decodedKind) bool { return kind.gvk == key.gvk })
		})
		delete(u.kinds, of)
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

// blocked returns an error for each kind whose cache can't sync because some objects don't decode.
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

// blockedError returns the error for a kind whose objects aren't handled because some of them don't decode.
func blockedError(objects []decoding.Object) error {
	return fmt.Errorf("%s: no object of the kind is handled, because the cache of the manager cannot decode %s: correct or delete it, "+
		"or set NewCache: kopf.NewCache in the options of the manager to handle the other objects", objects[0].GVK.Kind, listed(objects))
}

// maxListedObjects is how many objects an error lists.
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

// leftOut returns the objects of our kinds and related kinds that caches leave out. The channels are closed after the next change.
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

func (u *undecodable) blocking() (objects []decoding.Object) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, stuck := range u.stuck {
		objects = append(objects, stuck...)
	}
	return objects
}

// ReportUndecodable reports objects that don't decode until the context is cancelled.
func (r *Runtime) ReportUndecodable(ctx context.Context) {
	r.Watches.undecodable.useCache(r.Manager.GetCache())
	counted := map[string]bool{}
	defer func() {
		for name := range counted {
			metrics.UndecodableObjects.DeleteLabelValues(name)
		}
	}()
	for ctx.Err() == nil {
		leftOut, ownChanged, sharedChanged := r.Watches.undecodable.leftOut()
		r.reportEach(append(leftOut, r.Watches.undecodable.blocking()...), counted)
		select {
		case <-r.Watches.undecodable.changed:
		case <-ownChanged:
		case <-sharedChanged:
		case <-ctx.Done():
		}
	}
}

// reportEach logs objects that weren't reported yet and posts Events about them. It logs when they are gone, and counts them in the metric.
func (r *Runtime) reportEach(objects []decoding.Object, counted map[string]bool) {
	u := r.Watches.undecodable
	numbers, present, unresolved := map[string]int{}, map[undecodableKey]decoding.Object{}, map[types.UID]bool{}
	for _, obj := range objects {
		u.mu.Lock()
		kind, _ := u.find(obj.GVK)
		u.mu.Unlock()
		numbers[kind.name]++
		unresolved[obj.UID] = true
		if _, reported := u.reported[keyOf(obj)]; !reported {
			r.reportOne(obj, kind)
		}
		present[keyOf(obj)] = obj
	}
	for _, obj := range u.reported {
		u.mu.Lock()
		_, handled := u.find(obj.GVK) // false when the operator or the kind's controller stops
		u.mu.Unlock()
		if handled && !unresolved[obj.UID] {
			r.Manager.GetLogger().Info("An object that did not decode was repaired, was deleted, or has left the scope", "kind", obj.GVK.Kind, "namespace", obj.Key.Namespace, "name", obj.Key.Name)
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

func (r *Runtime) reportOne(obj decoding.Object, kind decodedKind) {
	r.Manager.GetLogger().Error(obj.Fault, "An object does not decode into its Go type; it is not handled",
		"kind", obj.GVK.Kind, "namespace", obj.Key.Namespace, "name", obj.Key.Name, "goType", fmt.Sprintf("%T", kind.obj))
	engines := r.Engines.All()
	if len(engines) == 0 {
		return
	}
	e := engines[0]
	if i := slices.IndexFunc(engines, func(e *engine.Engine) bool { return e.GVK == obj.GVK }); i >= 0 {
		e = engines[i]
	}
	e.WarnAbout(obj.Metadata(), undecodableReason, fmt.Sprintf("the operator does not handle the object, because it does not decode into %T: %v", kind.obj, obj.Fault))
}

// NotReadyForObjects returns errors if there are objects that the operator can't handle. With admission handlers, the operator is ready
// nevertheless. Otherwise, the API server couldn't reach the handlers, so no client could repair the objects.
func (r *Runtime) NotReadyForObjects() (errs []error) {
	if errs := r.Watches.undecodable.blocked(); len(errs) > 0 {
		return errs
	}
	if r.ServesAdmission {
		return nil
	}
	leftOut, _, _ := r.Watches.undecodable.leftOut()
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

// isTolerant reports whether the cache leaves out objects that don't decode.
func (g *Group) isTolerant() bool {
	_, ok := g.cache.(interface{ Faults() *decoding.Faults })
	return ok
}

// explainUnsynced looks for objects that don't decode if it takes the unit's caches long to sync. It stops once all of them have synced.
func (u *Unit) explainUnsynced(ctx context.Context) {
	if u.isTolerant() {
		return
	}
	for wait := unsyncedAfter; ; wait *= 2 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		if u.findBlocking(ctx) {
			return
		}
	}
}

// findBlocking looks for objects that block the caches of kinds that haven't synced. It returns true if all caches have synced.
func (u *Unit) findBlocking(ctx context.Context) (synced bool) {
	synced = true
	for _, kind := range u.decoded {
		informer, err := u.cache.GetInformer(ctx, kind.obj, cache.BlockUntilSynced(false))
		if err != nil || informer.HasSynced() {
			u.runtime.Watches.undecodable.setStuck(stuckKey{gvk: kind.gvk}, nil)
			continue
		}
		synced = false
		found := u.runtime.findUndecodable(ctx, kind, watchcheck.Namespaces(informer), func() bool { return !informer.HasSynced() })
		u.runtime.Watches.undecodable.setStuck(stuckKey{gvk: kind.gvk}, found)
	}
	return synced
}

// decodingCheck returns a check for objects that don't decode and therefore block a kind's watch. It returns nil if nothing can block the
// watch.
func (u *Unit) decodingCheck(gvk schema.GroupVersionKind) func(ctx context.Context, namespace string, missesChanges bool) error {
	i := slices.IndexFunc(u.decoded, func(kind decodedKind) bool { return kind.gvk == gvk })
	if i < 0 || u.isTolerant() {
		return nil
	}
	return func(ctx context.Context, namespace string, missesChanges bool) error {
		key, found := stuckKey{gvk, namespace, true}, []decoding.Object(nil)
		if missesChanges {
			found = u.runtime.findUndecodable(ctx, u.decoded[i], []string{namespace}, func() bool { return true })
		}
		if u.runtime.Watches.undecodable.setStuck(key, found); len(found) == 0 {
			return nil
		}
		return blockedError(found)
	}
}

// findUndecodable lists a kind's objects in some namespaces, or in the whole cluster, and returns those that don't decode.
func (r *Runtime) findUndecodable(ctx context.Context, kind decodedKind, namespaces []string, proceed func() bool) (all []decoding.Object) {
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		found, err := decoding.Find(ctx, r.Manager.GetAPIReader(), kind.gvk, kind.newObject, proceed, client.InNamespace(namespace))
		if err != nil && ctx.Err() == nil {
			r.Manager.GetLogger().V(1).Info("Failed to look for objects that do not decode", "kind", kind.gvk.Kind, "namespace", namespace, "error", err.Error())
		}
		all = append(all, found...)
	}
	return all
}

// explainStartError adds the objects that block a cache to a controller's error.
func (u *Unit) explainStartError(err error) error {
	if err == nil || u.isTolerant() {
		return err
	}
	known := u.runtime.Watches.undecodable
	if len(known.blocked()) == 0 { // the start failed before explainUnsynced could look
		ctx, cancel := context.WithTimeout(context.Background(), unsyncedAfter)
		defer cancel()
		u.findBlocking(ctx)
	}
	return errors.Join(append(known.blocked(), err)...)
}

// CheckObjects lists all objects of the kinds and related kinds with Go types. It returns an error for each object that doesn't decode.
func (r *Runtime) CheckObjects(ctx context.Context, kinds []Kind) error {
	var errs []error
	checked := map[schema.GroupVersionKind]bool{}
	check := func(gvk schema.GroupVersionKind, obj client.Object) {
		newObject := decoding.Constructor(obj)
		if newObject == nil || checked[gvk] {
			return
		}
		checked[gvk] = true
		namespaces := r.CachedNamespaces(gvk, false)
		if namespaced, err := apiutil.IsGVKNamespaced(gvk, r.Manager.GetRESTMapper()); err != nil || !namespaced || len(namespaces) == 0 {
			namespaces = []string{""}
		}
		for _, namespace := range namespaces {
			found, err := decoding.Find(ctx, r.Manager.GetAPIReader(), gvk, newObject, func() bool { return true }, client.InNamespace(namespace))
			if err != nil {
				errs = append(errs, err)
			}
			for _, obj := range found {
				errs = append(errs, obj)
			}
		}
	}
	for _, kind := range kinds {
		check(kind.GVK, kind.New())
		for _, c := range kind.Related {
			check(c.GVK, c.watched())
		}
	}
	return errors.Join(errs...)
}

// LeftOut returns the objects of the kinds and related kinds that caches leave out because they don't decode.
func (w *Watches) LeftOut() []decoding.Object {
	objects, _, _ := w.undecodable.leftOut()
	return objects
}
