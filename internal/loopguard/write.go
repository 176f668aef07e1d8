package loopguard

import (
	"slices"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

const (
	maxPaths    = 10 // in a report
	maxVersions = 32 // of the writes of one handler
)

// ReportedByEngine is the handler of a [Write] of the conditions that report handlers. The engine writes them itself.
const ReportedByEngine = ""

// A Write contains the fields that a handler has written.
type Write struct {
	Handler  string
	Fields   patch.MergePatch // the change of the essence
	Paths    []string         // the written fields, also those outside of the essence; sorted
	Versions []string         // the resource versions of the writes, the oldest first
}

// NewWrite returns the write of a patch by an unknown handler. base and stored are the contents before and after the write, and version is the resource version after it.
func NewWrite(builder essence.Builder, base, stored map[string]any, doc patch.MergePatch, version string) Write {
	before, after := builder.Build(doc.CurrentValues(base).Apply(stored)), builder.Build(stored)
	return Write{Fields: patch.Diff(before, after).DeepCopy(), Paths: mergeSorted(nil, doc.Paths()), Versions: []string{version}}
}

// with returns the union of two writes of a handler.
func (w Write) with(later Write) Write {
	w.Fields = patch.Merge(w.Fields, later.Fields)
	w.Paths = mergeSorted(w.Paths, later.Paths)
	w.Versions = append(slices.Clone(w.Versions), later.Versions...)
	w.Versions = w.Versions[max(0, len(w.Versions)-maxVersions):]
	return w
}

// mergeSorted returns the union of two lists, sorted and limited.
func mergeSorted(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), maxPaths)]
}
