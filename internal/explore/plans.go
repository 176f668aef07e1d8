package explore

import (
	"slices"
	"strings"
)

// Plans returns the plans that follow from a reference run, and the number of plans that it left out because they can't have an effect. If
// pairs is true, it adds plans with two faults.
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
		before := ref.isNewMoment(i)
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

// isNewMoment reports whether a crash before a write can have a different effect than a crash after the previous write.
func (r *Run) isNewMoment(write int) bool {
	former := Moment{Changes: r.Writes[write].Before.Changes}
	if write > 0 {
		former = r.Writes[write-1].After
	}
	return r.Writes[write].Before != former
}

// addStale adds plans with a crash and a first list that is older than the crash. If several lists show the same state, only one of them
// gets a plan.
func (r *Run) addStale(add func(bool, ...Fault), effective bool, kind Kind, at int, when Moment) {
	seen := map[string]bool{r.stateAt(when.Changes): true}
	for change := min(when.Changes, len(r.Changes)) - 1; change >= 0; change-- {
		state := r.stateAt(change)
		add(effective && !seen[state], Fault{Kind: kind, At: at, Stale: true, AsOf: change})
		seen[state] = true
	}
}

// stateAt returns the state after a number of changes.
func (r *Run) stateAt(changes int) string {
	if changes < 1 || len(r.Changes) == 0 {
		return "the beginning"
	}
	return r.Changes[min(changes, len(r.Changes))-1].State
}

// pairsOf combines faults at different writes and watch events. Plans with stale lists are not combined.
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

// phase describes the write or watch event of a fault, for [Report.Phases].
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
