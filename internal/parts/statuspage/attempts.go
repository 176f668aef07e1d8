package statuspage

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// The limits of [Attempts]. It takes about 85 MB at all limits, and 4 MB with one attempt per object.
const (
	maxAttempts        = 20
	maxAttemptsObjects = 10_000
	maxAttemptError    = 256
)

// Attempts keeps objects' last attempts in memory: 20 for each of the 10 000 objects with the most recent ones. Its methods are safe for
// concurrent use.
type Attempts struct {
	mu      sync.Mutex
	objects map[attemptsKey]*list.Element
	recent  list.List // of *objectAttempts; the last one is the next to be dropped
}

type attemptsKey struct {
	kind schema.GroupKind
	key  types.NamespacedName
}

// objectAttempts are one object's attempts, oldest first.
type objectAttempts struct {
	key  attemptsKey
	uid  types.UID
	list []*explain.Attempt
}

// Begin records that an attempt has started. It is an [invoke.AttemptHook], so the returned function records how it ended; the returned
// context is nil. If an object has a new uid, its old attempts are dropped.
func (a *Attempts) Begin(_ context.Context, info invoke.AttemptInfo) (_ context.Context, end func(progress.Outcome)) {
	recorded := &explain.Attempt{Handler: info.Handler, Reason: info.Reason, Number: info.Attempt.Number + 1, State: explain.Active, Started: time.Now()}
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.of(attemptsKey{info.Kind.GroupKind(), info.Object})
	if o.uid != info.UID {
		o.uid, o.list = info.UID, nil
	}
	if len(o.list) == maxAttempts {
		i := evictable(o.list)
		o.list = slices.Delete(o.list, i, i+1)
	}
	o.list = append(o.list, recorded)
	return nil, func(outcome progress.Outcome) {
		a.mu.Lock()
		defer a.mu.Unlock()
		recorded.State, recorded.Ended = attemptState(outcome), time.Now()
		if outcome.Err != nil {
			recorded.Error = shortened(outcome.Err.Error())
		}
	}
}

func attemptState(outcome progress.Outcome) explain.State {
	switch {
	case outcome.Success:
		return explain.Succeeded
	case outcome.Interrupted:
		return explain.Stopped
	case outcome.Waiting:
		return explain.Waiting
	case outcome.Final:
		return explain.Failed
	default:
		return explain.Retrying
	}
}

// of returns an object's attempts, and makes it the most recent object.
func (a *Attempts) of(key attemptsKey) *objectAttempts {
	if found := a.objects[key]; found != nil {
		a.recent.MoveToFront(found)
		return found.Value.(*objectAttempts)
	}
	if a.objects == nil {
		a.objects = map[attemptsKey]*list.Element{}
	}
	if len(a.objects) == maxAttemptsObjects {
		delete(a.objects, a.recent.Remove(a.recent.Back()).(*objectAttempts).key)
	}
	created := &objectAttempts{key: key}
	a.objects[key] = a.recent.PushFront(created)
	return created
}

// evictable returns the index of the oldest attempt of the handler that has the most attempts. This keeps a frequent timer from displacing
// the attempts of other handlers.
func evictable(all []*explain.Attempt) (oldest int) {
	numbers, most := map[string]int{}, 0
	for i, attempt := range slices.Backward(all) {
		numbers[attempt.Handler]++
		if n := numbers[attempt.Handler]; n >= most {
			oldest, most = i, n
		}
	}
	return oldest
}

// Of returns an object's attempts, oldest first.
func (a *Attempts) Of(kind schema.GroupKind, key types.NamespacedName) (all []explain.Attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.objects[attemptsKey{kind, key}]
	if found == nil {
		return nil
	}
	for _, attempt := range found.Value.(*objectAttempts).list {
		all = append(all, *attempt)
	}
	return all
}

// shortened cuts an error. It copies the text so that a long one doesn't stay in memory.
func shortened(text string) string {
	if len(text) <= maxAttemptError {
		return text
	}
	end := maxAttemptError
	for end > 0 && text[end]&0xC0 == 0x80 { // not within a character
		end--
	}
	return string([]byte(text[:end])) + "…"
}
