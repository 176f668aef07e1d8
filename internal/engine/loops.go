package engine

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/loopguard"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
)

// The Event and the condition that report a loop.
const (
	handlerLoop      = "HandlerLoop"
	reasonOwnChanges = "OwnChanges"
)

// noteWrite records a handler's write. Writes outside of the essence matter only for reconcile handlers.
func (e *Engine) noteWrite(r *reconciliation, id string, write loopguard.Write) {
	if e.LoopLimit < 1 || len(write.Fields) == 0 && len(e.ReconcileHandlers.IDs()) == 0 {
		return
	}
	write.Handler = id
	r.details.Loops = r.details.Loops.Add(write)
}

// noteOwnChanges records the handlers' changes that the engine has written. It is called only for kinds where these can be updates.
func (e *Engine) noteOwnChanges(r *reconciliation, accepted commit.Accepted) {
	base := accepted.Before.Content
	for _, p := range accepted.Patches {
		write := loopguard.NewWrite(e.detector.Essence, base, accepted.Stored, p.Patch, accepted.Version)
		base = p.Patch.Apply(base)
		if len(write.Fields) == 0 {
			continue
		}
		id := p.ID
		if p.Report {
			id = loopguard.ReportedByEngine
		}
		e.noteWrite(r, id, write)
	}
}

// guardLoops delays the next update of an object whose handlers cause their own updates. All other work continues. [Engine.releaseLoops] is
// its counterpart after the handlers.
func (e *Engine) guardLoops(ctx context.Context, r *reconciliation) (hold Hold, err error) {
	loops, at := r.details.Loops, now()
	if loops == nil || r.held.isActive() { // handlers haven't made changes that may call them again, or the cause is held anyway
		return Hold{}, nil
	}
	expireLoops(ctx, loops, at)
	handles := !r.session.Cause.Reason.HasHandlers()
	if !e.startsUpdate(r) {
		loops.SkipUpdate(at)
	} else {
		wait := loops.StartUpdate(at, r.session.Cause.Diff, e.LoopLimit)
		if handles = wait == 0; !handles {
			log.FromContext(ctx).V(1).Info("The update is delayed, because handlers have caused it", "delay", wait.String())
			hold = Hold{Reason: HeldByLoop, Until: at.Add(wait), Scope: HoldsCauses}
		}
		e.reportLoop(ctx, r.draft.Base(), loops)
	}
	if handles {
		r.calls.handledLoops = r.draft.Base().GetResourceVersion()
	}
	return hold, nil
}

func (e *Engine) checkLoops(s subject) Hold {
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

// startsUpdate reports whether this reconcile starts to handle an update.
func (e *Engine) startsUpdate(r *reconciliation) bool {
	return r.session.Cause.Reason == cause.Update && !r.session.Cause.Requested && !r.session.Records.HasRecords(string(cause.Update)) && !r.session.Cause.Reversed && !r.session.Cause.WasEdited()
}

// guardReconciles reports whether reconcile handlers must wait before they are called for changes, because they have probably made these
// changes themselves. failing are those whose last attempt has failed.
func (e *Engine) guardReconciles(r *reconciliation, changes, failing []string) (held bool) {
	if e.LoopLimit < 1 {
		return false
	}
	if r.details.Loops == nil {
		if len(failing) == 0 || !slices.ContainsFunc(changes, func(version string) bool { return version != objectstate.RelatedChange }) {
			return false
		}
		r.details.Loops = &loopguard.Loops{}
	}
	return r.details.Loops.StartReconcile(now(), changes, failing, e.LoopLimit) > 0
}

// releaseLoops is called after a reconcile's handlers. It drops the handled changes, reports a loop, and returns the time until the next
// reconcile, or 0 if none is needed.
func (e *Engine) releaseLoops(ctx context.Context, r *reconciliation) (next time.Duration) {
	loops := r.details.Loops
	if loops == nil {
		return 0
	}
	if handled := r.calls.handledLoops; handled != "" {
		loops.DropHandled(handled)
	}
	e.reportLoop(ctx, r.draft.Base(), loops)
	next = expireLoops(ctx, loops, now()) // a waiting cycle may have been skipped
	if loops.IsEmpty() {
		r.details.Loops = nil
	}
	e.noteLoop(client.ObjectKeyFromObject(r.draft.Base()), loops.IsLooping())
	return next
}

// expireLoops drops counted calls that are too old, and logs when a loop has stopped. It returns the delay from [loopguard.Loops.Expire].
func expireLoops(ctx context.Context, loops *loopguard.Loops, at time.Time) (next time.Duration) {
	changes := loops.Changes()
	next, ended := loops.Expire(at)
	if ended {
		log.FromContext(ctx).Info("The handlers of the object no longer cause their own calls", "changes", changes)
	}
	return next
}

// reportLoop logs a loop and posts an Event about it, once per loop.
func (e *Engine) reportLoop(ctx context.Context, obj client.Object, loops *loopguard.Loops) {
	if loops.TakeReport() {
		log.FromContext(ctx).Info("The handlers of the object cause their own calls; the next calls are delayed until this stops. "+
			"A handler must write another value only if something else has changed, or react to other fields only", "changes", loops.Changes())
		e.events.Warn(obj, handlerLoop, loopMessage(loops))
	}
}

func loopMessage(loops *loopguard.Loops) string {
	return "The handlers of the object cause their own calls, which are delayed: " + strings.Join(loops.Changes(), ", ")
}

// isLooping reports whether the handlers of a key's object cause their own calls.
func (e *Engine) isLooping(key types.NamespacedName) bool {
	return !e.held.looping.objects.Since(key).IsZero()
}

// setHandlerLoop sets or removes the condition that reports a loop, for kinds that declare conditions.
func (e *Engine) setHandlerLoop(r *reconciliation, set *conditions.Set) {
	switch {
	case len(e.DeclaredConditions) == 0:
	case r.details.Loops.IsLooping():
		set.True(handlerLoop, reasonOwnChanges, loopMessage(r.details.Loops))
	default:
		set.Remove(handlerLoop)
	}
}
