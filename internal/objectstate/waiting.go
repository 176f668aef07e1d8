package objectstate

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Wake takes note that a name is queued.
func (i *Inventory) Wake(key types.NamespacedName) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if since, waits := i.waiting[key]; !waits || since.After(time.Now()) {
		i.waiting[key] = time.Now()
	}
}

// Expect takes note that a name waits from a moment on: it is to be queued then.
func (i *Inventory) Expect(key types.NamespacedName, from time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, waits := i.waiting[key]; !waits {
		i.waiting[key] = from
	}
}

// Take takes note that a worker has begun with a name.
func (i *Inventory) Take(key types.NamespacedName) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.waiting, key)
}

// Waiting tells how many names wait for a worker, and for how long the first of them has.
func (i *Inventory) Waiting() (n int, longest time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	for _, since := range i.waiting {
		if waits := now.Sub(since); waits >= 0 {
			n, longest = n+1, max(longest, waits)
		}
	}
	return n, longest
}

// A Waiter is a name that waits for a worker.
type Waiter struct {
	types.NamespacedName
	Since time.Time
}

// Longest returns the names, at most so many, that have waited for longer than that, the first ones first.
func (i *Inventory) Longest(atMost int, than time.Duration) []Waiter {
	var waiters []Waiter
	i.mu.Lock()
	now := time.Now()
	for key, since := range i.waiting {
		if now.Sub(since) >= than {
			waiters = append(waiters, Waiter{key, since})
		}
	}
	i.mu.Unlock()
	slices.SortFunc(waiters, func(a, b Waiter) int { return a.Since.Compare(b.Since) })
	return waiters[:min(atMost, len(waiters))]
}

// StillWaits reports whether no worker has begun with a name since it waits.
func (i *Inventory) StillWaits(w Waiter) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	since, waits := i.waiting[w.NamespacedName]
	return waits && since.Equal(w.Since)
}
