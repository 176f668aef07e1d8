package bench

import v1 "github.com/kopf-runtime/kopf-runtime/test/bench/api/v1"

// objectSet is a namespace with objects that are already handled when an operator starts.
type objectSet struct {
	namespace string
	bare      uint64 // heap of a process with only an informer for the objects, in bytes
}

// objectSetKey identifies an object set by the role that handled the objects, and their number.
type objectSetKey struct {
	role
	objects int
}

// handledObjects returns n objects that an operator of the role has handled. It reuses the objects of an earlier round.
func (b *bench) handledObjects(r role, n int) objectSet {
	b.t.Helper()
	key := objectSetKey{r, n}
	if _, ok := b.objectSets[key]; !ok {
		b.objectSets[key] = b.createHandled(r, n)
	}
	return b.objectSets[key]
}

// createHandled creates n objects that an operator of the role recognizes as handled. An operator handles the first
// object. The others are copies of its annotations, finalizers and status.
func (b *bench) createHandled(r role, n int) objectSet {
	b.t.Helper()
	set, k := objectSet{namespace: b.namespace()}, kinds[r.Kind]
	r.Namespace = set.namespace
	p := b.startSynced(r, "objectset")
	o := b.observe(k, set.namespace, "")
	defer o.stop()
	var pattern v1.Object
	b.requestAndAwait(o, k.objects(set.namespace, "pattern", 1), b.create, func(e event) bool {
		pattern = e.obj
		return r.Side.handledAt(1)(e)
	})
	b.stop(p)
	objects := k.objects(set.namespace, "object", n-1)
	for _, obj := range objects {
		obj.SetAnnotations(r.Side.handledAnnotations(pattern))
		obj.SetFinalizers(pattern.GetFinalizers())
		_, status := obj.Content()
		_, handledStatus := pattern.Content()
		*status = *handledStatus
	}
	b.must(b.requestAll(b.t.Context(), objects, b.create))

	p = b.startSynced(role{Side: bare, Kind: r.Kind, Namespace: set.namespace}, "objectset")
	set.bare = b.send(p, doCollect).Heap
	b.stop(p)
	return set
}

// startIdle starts an operator for the objects of the set and waits until it has reconciled all of them and is idle.
func (b *bench) startIdle(r role, set objectSet, n int, name string) *process {
	b.t.Helper()
	r.Namespace = set.namespace
	p := b.startSynced(r, name)
	b.poll(pollInterval, func() bool { return b.send(p, doStats).Reconciles >= int64(n) })
	b.awaitIdle(p)
	return p
}
