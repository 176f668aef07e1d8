package loopguard

import (
	"fmt"
	"slices"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// Loops keeps track of the changes with which the handlers of one object trigger themselves. Only [Loops.Add], [Loops.IsLooping],
// [Loops.HasWritten] and [Loops.Held] accept a nil receiver. Loops is not safe for concurrent use.
type Loops struct {
	writes     []Write  // writes that no cycle has handled yet
	cycles     Guard    // counts updates caused by handlers
	reconciles Guard    // counts calls of reconcile handlers caused by handlers
	changes    []string // the handlers and the fields that have caused these calls, sorted
	reported   bool
}

// Add records a write of a handler. It returns the receiver, or new Loops for a nil receiver. A write without resource versions is ignored.
func (l *Loops) Add(write Write) *Loops {
	if len(write.Versions) == 0 {
		return l
	}
	if l == nil {
		l = &Loops{}
	}
	i := slices.IndexFunc(l.writes, func(known Write) bool { return known.Handler == write.Handler })
	if i < 0 {
		l.writes = append(l.writes, write)
	} else {
		l.writes[i] = l.writes[i].with(write)
	}
	return l
}

// StartUpdate returns how long an update must wait; 0 if it can start. Only an update whose changes were all made by handlers may have to
// wait. limit is as in [Guard.Start].
func (l *Loops) StartUpdate(now time.Time, changes diff.Diff, limit int) (wait time.Duration) {
	fields, own := Attribute(changes, l.writes)
	l.cycles, wait = l.cycles.Start(now, own, limit)
	if !own {
		return wait
	}
	var texts []string
	for _, field := range fields {
		for _, id := range field.Handlers {
			texts = append(texts, describe(id, fieldName(field.Field)))
		}
	}
	l.note(texts)
	return wait
}

// SkipUpdate drops a waiting update whose time has come. Call it instead of [Loops.StartUpdate] if no update starts.
func (l *Loops) SkipUpdate(now time.Time) { l.cycles = l.cycles.Skip(now) }

// HasWritten reports whether a write by a handler produced a resource version. It is false for a nil receiver.
func (l *Loops) HasWritten(id, version string) bool {
	return l != nil && slices.ContainsFunc(l.writes, func(write Write) bool { return write.Handler == id && slices.Contains(write.Versions, version) })
}

// StartReconcile returns how long the reconcile handlers must wait; 0 if they can be called. They only ever wait if handlers have made all
// changes. versions are the resource versions of the changes since the last call, except the engine's own writes. limit is as in
// [Guard.Start].
//
// failing are the handlers whose last attempts failed. Such a handler may have written the object with its own client, so an object that
// changes after each of its attempts counts as changed by it.
func (l *Loops) StartReconcile(now time.Time, versions, failing []string, limit int) (wait time.Duration) {
	if len(versions) == 0 && l.reconciles.Held().IsZero() {
		return 0
	}
	own := true
	var texts []string
	for _, version := range versions {
		i := slices.IndexFunc(l.writes, func(write Write) bool { return slices.Contains(write.Versions, version) })
		if i < 0 && version != objectstate.RelatedChange && len(failing) > 0 {
			for _, id := range failing {
				texts = append(texts, fmt.Sprintf("%q fails, and the object changes after each attempt", id))
			}
			continue
		}
		if own = i >= 0; !own {
			break
		}
		for _, path := range l.writes[i].Paths {
			texts = append(texts, describe(l.writes[i].Handler, path))
		}
	}
	l.reconciles, wait = l.reconciles.Start(now, own, limit)
	if own {
		l.note(texts)
	}
	return wait
}

// DropHandled drops the writes up to a resource version, once handlers have been called for them. It keeps them all while reconcile
// handlers wait.
func (l *Loops) DropHandled(version string) {
	if l.reconciles.Held().IsZero() {
		l.writes = slices.DeleteFunc(l.writes, func(write Write) bool {
			return !objectstate.IsOlderVersion(version, write.Versions[len(write.Versions)-1])
		})
	}
}

// Expire drops counted calls that are too old. It returns the time until it must be called again, 0 if never, and whether a loop has ended.
func (l *Loops) Expire(now time.Time) (next time.Duration, ended bool) {
	was := l.IsLooping()
	for _, guard := range [...]*Guard{&l.cycles, &l.reconciles} {
		var left time.Duration
		if *guard, left = guard.Expire(now); left > 0 && (next == 0 || left < next) {
			next = left
		}
	}
	if ended = was && !l.IsLooping(); ended {
		l.reported, l.changes = false, nil
	}
	return next, ended
}

// IsEmpty reports whether there are neither writes nor counted calls.
func (l *Loops) IsEmpty() bool {
	return len(l.writes) == 0 && l.cycles.Empty() && l.reconciles.Empty()
}

// IsLooping reports whether handlers are triggering themselves.
func (l *Loops) IsLooping() bool {
	return l != nil && (l.cycles.Looping() || l.reconciles.Looping())
}

// TakeReport reports whether a loop must be reported. It returns true only once per loop.
func (l *Loops) TakeReport() bool {
	if l.reported || !l.IsLooping() {
		return false
	}
	l.reported = true
	return true
}

// Held returns when the next delayed call starts; zero if none is delayed.
func (l *Loops) Held() (first time.Time) {
	if l == nil {
		return time.Time{}
	}
	for _, at := range [...]time.Time{l.cycles.Held(), l.reconciles.Held()} {
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// Changes describes the changes that have caused the calls, and names their handlers.
func (l *Loops) Changes() []string { return l.changes }

func (l *Loops) note(changes []string) {
	if l.cycles.Count()+l.reconciles.Count() <= 1 && !l.IsLooping() {
		l.changes = nil // these changes belong to an earlier chain
	}
	l.changes = mergeSorted(l.changes, changes)
}

func describe(id, field string) string {
	if id == ReportedByEngine {
		return "a reported condition changes " + field
	}
	return fmt.Sprintf("%q changes %s", id, field)
}

// fieldName returns the name of an essence field as users know it.
func fieldName(path diff.Path) string {
	if len(path) > 1 && path[0] == essence.ConditionsKey {
		return "status.conditions." + path[1]
	}
	return path.String()
}
