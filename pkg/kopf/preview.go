package kopf

import (
	"context"

	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	"github.com/kopf-runtime/kopf-runtime/pkg/preview"
)

// Preview returns what the operator would do with each object if it started now: the cause, the handlers, the finalizer, and the daemons and
// timers. Call it before you deploy a new version, for example with a flag of its binary. It lists all objects from the API server in pages,
// calls the functions of [IndexBy] and the handlers' predicates, but no handlers, and writes nothing. It needs permission to list the kinds.
// The manager must not be started.
//
// The report describes the first reconcile of each object. Functions of [OnStartup] aren't called, so predicates must not need what they set
// up. Kinds of [ForKinds] aren't included. With sharding, the report is about all shards. An error of one kind is part of the report.
//
// kopf has no equivalent.
func (o *Operator) Preview(ctx context.Context) (*preview.Report, error) {
	all, err := o.engineKinds()
	if err != nil {
		return nil, err
	}
	var watched []kinds.Kind
	for i, kind := range all {
		if !o.resources[i].hasOnlyAdmission() {
			watched = append(watched, watchedKind(kind, o.resources[i]))
		}
	}
	report := o.kinds.Preview(ctx, watched, o.settings())
	if len(o.selections) > 0 {
		report.Notes = append(report.Notes, "Kinds of ForKinds are not included.")
	}
	return report, ctx.Err()
}
