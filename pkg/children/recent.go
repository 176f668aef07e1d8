package children

import (
	"container/list"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	maxRecent = 512         // maximum number of stored applies
	maxLag    = time.Minute // maximum time for which the cache is considered stale
)

// A recentKey identifies a child on a server and its field owner. The RESTMapper stands for the server, because clients can be wrapped.
type recentKey struct {
	mapper     any
	uid        types.UID
	fieldOwner string
}

// A recentApply is this process's last apply of a child.
type recentApply struct {
	key      recentKey
	hash     string // hash of the intent
	at       time.Time
	response *unstructured.Unstructured
}

// recentApplies stores the last applies until the cache shows them. It is safe for concurrent use.
type recentApplies struct {
	mu      sync.Mutex
	entries map[recentKey]*list.Element
	order   list.List // elements are *recentApply, newest first
}

var recent = recentApplies{entries: map[recentKey]*list.Element{}}

func (o *Owner) recentKey(uid types.UID) (key recentKey, ok bool) {
	mapper := o.client.RESTMapper()
	if uid == "" || mapper == nil || !reflect.TypeOf(mapper).Comparable() {
		return recentKey{}, false
	}
	return recentKey{mapper, uid, o.fieldOwner}, true
}

func (o *Owner) recordApply(response *unstructured.Unstructured) {
	key, ok := o.recentKey(response.GetUID())
	if !ok {
		return
	}
	apply := &recentApply{key: key, hash: response.GetAnnotations()[o.appliedKey()], at: time.Now(), response: response.DeepCopy()}
	recent.mu.Lock()
	defer recent.mu.Unlock()
	if element, ok := recent.entries[key]; ok {
		if !isOlder(element.Value.(*recentApply).response, response) {
			return // another goroutine has applied the child since
		}
		recent.remove(element)
	}
	recent.entries[key] = recent.order.PushFront(apply)
	for recent.order.Len() > maxRecent {
		recent.remove(recent.order.Back())
	}
}

// lastResponse returns the response to this process's last apply while the live object from the cache is older than that response. It
// returns nil if the last apply had a different intent.
func (o *Owner) lastResponse(intent *unstructured.Unstructured, live client.Object) *unstructured.Unstructured {
	key, ok := o.recentKey(live.GetUID())
	if !ok {
		return nil
	}
	recent.mu.Lock()
	defer recent.mu.Unlock()
	element, ok := recent.entries[key]
	if !ok {
		return nil
	}
	apply := element.Value.(*recentApply)
	if !isOlder(live, apply.response) || time.Since(apply.at) > maxLag {
		recent.remove(element)
		return nil
	}
	if apply.hash != intent.GetAnnotations()[o.appliedKey()] {
		return nil
	}
	return apply.response.DeepCopy()
}

func (r *recentApplies) remove(element *list.Element) {
	delete(r.entries, element.Value.(*recentApply).key)
	r.order.Remove(element)
}

// isOlder reports whether an object is known to be older than another version of it.
func isOlder(obj, other client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), other.GetResourceVersion())
	return err == nil && order < 0
}
