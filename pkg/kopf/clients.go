package kopf

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (o *Operator) clientOf(r resource) client.Client {
	if r.options().whenServed {
		return o.kinds.Clients.Of(o.mgr, r.identity())
	}
	return o.kinds.Client()
}

func (d *declared) hasDynamicKinds() bool {
	return len(d.selections) > 0 || slices.ContainsFunc(d.resources, func(r resource) bool { return r.options().whenServed })
}
