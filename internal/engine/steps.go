package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/lazylog"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
)

// A step is a part of a reconcile.
type step struct {
	// reasons are the reasons for which run ends a reconcile; the metric counts the objects by them.
	reasons []HoldReason
	// check returns why the step would hold an object now. It has no effects. It is nil for a step that never waits for others.
	check func(*Engine, subject) Hold
	// run takes the object through the step. A hold ends the reconcile.
	run func(context.Context, *Engine, *pass) (Hold, error)
}

// A pass is the way of an object through the steps.
type pass struct {
	r            *reconciliation
	handledLoops string // the result of guardLoops
	result       reconcile.Result
}

// steps is the order of a reconcile. Nothing is decided on a state that may be outdated, so the cause follows the freshness. The annotation, the epoch, the finalizer
// and the loops depend on the cause and on the matching handlers.
var steps = []step{
	{nil, nil, leave},
	{[]HoldReason{HeldByCache, HeldByWrite}, checkFreshness, awaitFreshness},
	{nil, nil, detectCause},
	{[]HoldReason{HeldByAnnotation}, checkAnnotation, obeyAnnotation},
	{[]HoldReason{HeldByEpoch}, nil, verifyEpoch},
	{nil, nil, leave}, // the epoch may have replaced the object by the one of the API server
	{[]HoldReason{HeldByFinalizer}, nil, keepFinalizer},
	{nil, checkBackground, startBackground},
	{nil, checkLoops, guardAgainstLoops},
	{nil, nil, planCalls},
	{nil, nil, callDueHandlers},
	{nil, nil, commitOutcomes},
	{nil, nil, scheduleNext},
}

// reconcile takes the object of a key through the steps.
func (e *Engine) reconcile(ctx context.Context, key types.NamespacedName) (none reconcile.Result, err error) {
	r, err := e.observe(ctx, key)
	if r == nil || err != nil {
		e.noteHold(key, "")
		e.noteLoop(key, false)
		return none, err
	}
	e.noteLoop(key, r.details.Loops.IsLooping())
	defer r.unlock()
	ctx = log.IntoContext(ctx, lazylog.New(log.FromContext(ctx)).WithValues("uid", string(r.draft.Base().GetUID())))
	ctx = objectstate.ContextWithMemos(ctx, e.states.Memos(r.draft.Base().GetUID()))
	p := &pass{r: r}
	for _, s := range steps {
		hold, err := s.run(ctx, e, p)
		if err != nil || hold.isActive() {
			e.noteHold(key, hold.Reason)
			return hold.result(), err
		}
	}
	e.noteHold(key, "")
	return p.result, nil
}

// leave ends the reconcile of an object that leaves the shard. The informer will deliver this state, and the engine then releases the object.
func leave(_ context.Context, e *Engine, p *pass) (Hold, error) {
	if e.Shard != nil && e.Shard.Leaves(p.r.draft.Base()) {
		return Hold{Reason: HeldByShard}, nil
	}
	return Hold{}, nil
}

func awaitFreshness(ctx context.Context, e *Engine, p *pass) (Hold, error) {
	wait, err := e.awaitFreshCache(ctx, p.r)
	return holdFor(HeldByCache, wait), err
}

func checkFreshness(e *Engine, s subject) Hold {
	switch details := s.known.Worker.Details; {
	case details != nil && details.Pending != nil:
		return Hold{Reason: HeldByWrite, Message: "the outcomes of the last reconcile are not written yet"}
	case e.isStale(s.obj, s.known):
		return Hold{Reason: HeldByCache, Message: "the cache does not show the last write of the operator yet"}
	}
	return Hold{}
}

func detectCause(ctx context.Context, e *Engine, p *pass) (Hold, error) {
	return Hold{}, e.evaluate(ctx, p.r)
}

func checkAnnotation(_ *Engine, s subject) Hold { return HoldByAnnotation(s.obj) }

// HoldByAnnotation returns the hold of an object that its annotation pauses. It needs no operator.
func HoldByAnnotation(obj client.Object) Hold {
	if IsObjectPaused(obj) {
		return Hold{Reason: HeldByAnnotation, Message: fmt.Sprintf("the annotation %s pauses the object", PausedAnnotation), ByUser: true}
	}
	return Hold{}
}

// obeyAnnotation holds a paused object: it stops the daemons and timers, and reports the pause in the conditions. The cause and the records stay as they are.
func obeyAnnotation(ctx context.Context, e *Engine, p *pass) (Hold, error) {
	if _, annotated := p.r.draft.Base().GetAnnotations()[PausedAnnotation]; !annotated {
		return Hold{}, nil
	}
	if !IsObjectPaused(p.r.draft.Base()) {
		warnAboutAnnotation(ctx, p.r.draft.Base())
		return Hold{}, nil
	}
	log.FromContext(ctx).V(1).Info("The object is paused by its annotation", "annotation", PausedAnnotation)
	e.supervisor.StopAll(p.r.draft.Base().GetUID(), daemons.ErrPaused)
	return Hold{Reason: HeldByAnnotation}, e.reportObjectPause(ctx, p.r)
}

func verifyEpoch(ctx context.Context, e *Engine, p *pass) (Hold, error) {
	if p.r.known.Worker.SeenSinceStart {
		return Hold{}, nil
	}
	r, wait, err := e.verifyAgainstEpoch(ctx, p.r)
	p.r = r
	return holdFor(HeldByEpoch, wait), err
}

func keepFinalizer(ctx context.Context, e *Engine, p *pass) (Hold, error) {
	wait, err := e.ensureFinalizer(ctx, p.r)
	return holdFor(HeldByFinalizer, wait), err
}

func startBackground(ctx context.Context, e *Engine, p *pass) (Hold, error) {
	if len(p.r.matching.background) > 0 {
		e.background.Start(ctx, p.r.draft.Base(), p.r.matching.background, p.r.backgroundState(), !p.r.known.ExistedAtStart)
	}
	return Hold{}, nil
}

func checkBackground(e *Engine, s subject) Hold {
	if s.obj.GetDeletionTimestamp() == nil {
		return Hold{}
	}
	var busy []string
	for _, id := range e.BackgroundHandlers.IDs() {
		switch e.supervisor.Status(daemons.Key{UID: s.obj.GetUID(), ID: id}).State {
		case daemons.StateRunning, daemons.StateStopping:
			busy = append(busy, id)
		default:
		}
	}
	if len(busy) == 0 {
		return Hold{}
	}
	return Hold{Reason: HeldByDaemons, Message: "daemons or timers have not stopped: " + strings.Join(busy, ", "), Scope: HoldsRelease}
}

// guardAgainstLoops delays the next update of an object whose handlers cause their own updates. All other work continues, so it returns no hold.
func guardAgainstLoops(ctx context.Context, e *Engine, p *pass) (Hold, error) {
	if p.r.details.Loops != nil { // handlers have made changes that may cause their own calls
		next, handled := e.guardLoops(ctx, p.r)
		p.r.setCause(next)
		p.handledLoops = handled
	}
	return Hold{}, nil
}

func checkLoops(e *Engine, s subject) Hold {
	if !e.isLooping(s.key) {
		return Hold{}
	}
	h := Hold{Reason: HeldByLoop, Message: "the handlers of the object cause their own calls", Scope: HoldsCauses}
	if details := s.known.Worker.Details; details != nil && details.Loops.IsLooping() {
		h.Message += ": " + strings.Join(details.Loops.Changes(), ", ")
		if h.Until = details.Loops.Held(); h.Until.After(time.Now()) {
			h.Message += "; the next ones in " + time.Until(h.Until).Round(time.Second).String()
		}
	}
	return h
}

// planCalls selects the handlers for the cause, and those of them that are due.
func planCalls(ctx context.Context, e *Engine, p *pass) (Hold, error) {
	e.selectHandlers(ctx, p.r)
	if e.retriesOnChange {
		p.r.noteRelatedChange()
	}
	e.makePlan(ctx, p.r)
	return Hold{}, nil
}

func callDueHandlers(ctx context.Context, e *Engine, p *pass) (Hold, error) {
	if e.writesEventChanges {
		e.takeEventChanges(ctx, p.r)
	}
	return Hold{}, e.callHandlers(ctx, p.r)
}

func commitOutcomes(ctx context.Context, e *Engine, p *pass) (Hold, error) {
	return Hold{}, e.commit(ctx, p.r)
}

func scheduleNext(ctx context.Context, e *Engine, p *pass) (Hold, error) {
	p.result = e.schedule(p.r)
	if p.r.details.Loops != nil {
		p.result = requeueBefore(p.result, e.releaseLoops(ctx, p.r, p.handledLoops))
	}
	e.expectOwnEvent(p.r, p.result)
	return Hold{}, nil
}
