package engine

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/statuspage"
)

// Status returns all objects that the engine handles, with their unfinished handlers, sorted by namespace and name. It is cheaper than
// calling [Engine.Explain] for each object, because it reads only the progress.
func (e *Engine) Status() statuspage.Kind {
	kind := statuspage.Kind{Group: e.GVK.Group, Version: e.GVK.Version, Kind: e.GVK.Kind, Handlers: e.handlerIDs(), Objects: []statuspage.Object{}}
	for _, obj := range e.states.List() {
		holds := e.Holds(obj)
		one := statuspage.Object{
			Namespace: obj.GetNamespace(), Name: obj.GetName(), Deleting: obj.GetDeletionTimestamp() != nil, Unfinished: e.unfinished(e.withOverlay(obj)),
			Paused: IsHeldBy(holds, HeldByPause, HeldByAnnotation), Looping: IsHeldBy(holds, HeldByLoop),
		}
		for _, hold := range holds {
			one.Waits = append(one.Waits, hold.Message)
		}
		if err := e.queue.failures.Get(client.ObjectKeyFromObject(obj)).err; err != nil {
			one.Error = err.Error()
		}
		kind.Objects = append(kind.Objects, one)
	}
	for _, key := range e.Vanished() {
		one := statuspage.Object{Namespace: key.Namespace, Name: key.Name, Deleting: true}
		for _, h := range e.pendingDeletion(key) {
			one.Unfinished = append(one.Unfinished, statuspage.Unfinished{Handler: h.ID, State: h.State, Attempts: h.Attempts, Error: h.LastError})
		}
		kind.Objects = append(kind.Objects, one)
	}
	slices.SortFunc(kind.Objects, func(a, b statuspage.Object) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return kind
}

// withOverlay returns an object including progress that isn't stored on it. It returns the object itself if there is no such progress, if a
// worker is reconciling it, or if no worker has loaded the progress yet.
func (e *Engine) withOverlay(obj client.Object) client.Object {
	known := e.states.Get(obj.GetUID())
	if known == nil || !known.TryLock() {
		return obj
	}
	defer known.Unlock()
	var memory commit.Memory
	if details := known.Worker.Details; details != nil {
		memory = details.Memory
	}
	content, err := e.committer.Overlaid(&memory, obj)
	if content == nil || err != nil {
		return obj
	}
	return &unstructured.Unstructured{Object: content}
}

// unfinished returns the cause handlers that have a record but haven't succeeded.
func (e *Engine) unfinished(obj client.Object) (all []statuspage.Unfinished) {
	for _, id := range e.Handlers.IDs() {
		record, err := e.Store.Fetch(obj, id)
		if err != nil || record == nil || record.Success {
			continue
		}
		all = append(all, statuspage.Unfinished{Handler: id, State: stateOf(*record), Attempts: record.Retries, Error: record.Message})
	}
	return all
}
