package bench

import v1 "github.com/kopf-runtime/kopf-runtime/test/bench/api/v1"

// A stock is the set of handled objects in a namespace, for the start of an operator.
type stock struct {
	namespace string
	bare      uint64 // heap of a process with the informer only
}

// A pile identifies a stock by the role and the number of its objects.
type pile struct {
	role
	objects int
}

// stocked returns the objects of a role. It creates them or reuses those of the previous round.
func (b *bench) stocked(r role, n int) stock {
	b.t.Helper()
	key := pile{r, n}
	if _, ok := b.stock[key]; !ok {
		b.stock[key] = b.stockUp(r, n)
	}
	return b.stock[key]
}

// stockUp creates objects in the state after an operator has handled them, as copies of one handled object.
func (b *bench) stockUp(r role, n int) stock {
	b.t.Helper()
	made, k := stock{namespace: b.namespace()}, kinds[r.Kind]
	r.Namespace = made.namespace
	p := b.begin(r, "stock")
	o := b.observe(k, made.namespace, "")
	defer o.stop()
	var pattern v1.Object
	b.storm(o, k.objects(made.namespace, "pattern", 1), b.create, func(seen sight) bool {
		pattern = seen.obj
		return r.Side.handledAt(1)(seen)
	})
	b.stop(p)
	objects := k.objects(made.namespace, "object", n-1)
	for _, obj := range objects {
		obj.SetAnnotations(r.Side.marked(pattern))
		obj.SetFinalizers(pattern.GetFinalizers())
		_, to := obj.Content()
		_, from := pattern.Content()
		*to = *from
	}
	b.ok(b.requestAll(b.t.Context(), objects, b.create))

	p = b.begin(role{Side: bare, Kind: r.Kind, Namespace: made.namespace}, "stock")
	made.bare = b.order(p, doCollect).Heap
	b.stop(p)
	return made
}

// settled starts an operator over a stock, and waits until it has reconciled all objects.
func (b *bench) settled(r role, made stock, n int, name string) *process {
	b.t.Helper()
	r.Namespace = made.namespace
	p := b.begin(r, name)
	b.poll(pollInterval, func() bool { return b.order(p, doStats).Passes >= int64(n) })
	b.awaitIdle(p)
	return p
}
