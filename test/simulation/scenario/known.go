package scenario

import "slices"

// known lists violations in rare cases that the engine does not prevent. These violations are counted but fail no test. When a case
// is fixed, remove its entry.
var known = []Property{
	// If a retried write finds that the object does not exist, the engine calls the handler once more for the object in the cache. It also repeats
	// the call if the cache is older than the deletion and our last write created no version.
	NothingAfter,
	// A resumption after a reverted, failing update discards the delays of the update. The engine drops writes that failed before a deletion
	// (decision 0002).
	DelaysOutlive,
	// Finished resume handlers that run with an update start again if the update is reverted.
	ResumesAgain,
}

// Unexpected returns the violations that fail a test.
func (r Report) Unexpected() []Violation {
	return slices.DeleteFunc(slices.Clone(r.Violations), func(v Violation) bool { return slices.Contains(known, v.Property) })
}
