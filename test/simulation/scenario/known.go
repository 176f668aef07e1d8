package scenario

import "slices"

// known are the properties that the engine does not have in rare cases, each with its case. They are counted, but
// fail no test; a line goes when its case is mended.
var known = []Property{
	// A write that could not be made is tried again, and finds the object gone: then it is handled once more as the
	// cache still has it. The same when the cache is older than the deletion, and our last write has made no version.
	NothingAfter,
	// A resumption that closes between a failing update, which was taken back, and the next one takes the delays of
	// the first with it. What could not be written before a deletion is void (0002 of the decisions).
	DelaysOutlive,
	// Resuming handlers that are done join an update, which is taken back before it is over: they begin anew.
	ResumesAgain,
}

// Unexpected are the violations that fail a test.
func (r Report) Unexpected() []Violation {
	return slices.DeleteFunc(slices.Clone(r.Violations), func(v Violation) bool { return slices.Contains(known, v.Property) })
}
