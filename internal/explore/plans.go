package explore

import (
	"slices"
	"strings"
)

// Plans makes the plans that follow from a reference run. It leaves out those that can have no effect, and counts them.
func Plans(ref *Run, pairs bool) (plans []Plan, pruned int) {
	add := func(effective bool, faults ...Fault) {
		if effective {
			plans = append(plans, faults)
		} else {
			pruned++
		}
	}
	for i, w := range ref.Writes {
		at := i + 1
		before := ref.isNewPosition(i)
		add(before, Fault{Kind: CrashBefore, At: at})
		ref.addStale(add, before, CrashBefore, at, w.Before)
		add(true, Fault{Kind: CrashAfter, At: at})
		ref.addStale(add, true, CrashAfter, at, w.After)
		for _, kind := range []Kind{Lost, Unavailable, Conflict} {
			add(true, Fault{Kind: kind, At: at})
		}
	}
	for i, n := range ref.WatchEvents {
		overwritten := slices.ContainsFunc(ref.WatchEvents[i+1:], func(later WatchEvent) bool { return later == n })
		add(overwritten, Fault{Kind: Unseen, At: i + 1})
	}
	if pairs {
		plans = append(plans, pairsOf(plans)...)
	}
	return plans, pruned
}

// isNewPosition reports whether a crash before a write can have another effect than one after the write before, or before everything.
func (r *Run) isNewPosition(write int) bool {
	former := Position{Changes: r.Writes[write].Before.Changes}
	if write > 0 {
		former = r.Writes[write-1].After
	}
	return r.Writes[write].Before != former
}

// addStale adds the restarts after a crash whose first list is older than the crash. Lists of the same state are the same.
func (r *Run) addStale(add func(bool, ...Fault), effective bool, kind Kind, at int, when Position) {
	seen := map[string]bool{r.stateAt(when.Changes): true}
	for change := min(when.Changes, len(r.Changes)) - 1; change >= 0; change-- {
		state := r.stateAt(change)
		add(effective && !seen[state], Fault{Kind: kind, At: at, Stale: true, AsOf: change})
		seen[state] = true
	}
}

// stateAt is the state after a number of changes.
func (r *Run) stateAt(changes int) string {
	if changes < 1 || len(r.Changes) == 0 {
		return "the beginning"
	}
	return r.Changes[min(changes, len(r.Changes))-1].State
}

// pairsOf combines faults of different writes and notices. The second one strikes in whatever life the operator then is. Old lists are
// not combined, but with the fault that follows them.
func pairsOf(plans []Plan) (pairs []Plan) {
	for _, first := range plans {
		for _, second := range plans {
			a, b := first[0], second[0]
			sameCount := a.Kind.affectsWrites() == b.Kind.affectsWrites()
			if a.Stale || b.Stale || sameCount && a.At >= b.At || !sameCount && a.Kind != Unseen {
				continue
			}
			pairs = append(pairs, Plan{a, b})
		}
	}
	return pairs
}

// phase names what a fault has struck, for the coverage.
func (r *Run) phase(f Fault) string {
	switch {
	case f.Kind == Unseen && f.At <= len(r.WatchEvents):
		return string(f.Kind) + ": " + r.WatchEvents[f.At-1].Watch
	case f.Kind.affectsWrites() && f.At <= len(r.Writes):
		w := r.Writes[f.At-1]
		stale := ""
		if f.Stale {
			stale = ", old list"
		}
		return string(f.Kind) + stale + ": " + w.Request + " [" + strings.Join(w.Fields, " ") + "]"
	}
	return string(f.Kind)
}
