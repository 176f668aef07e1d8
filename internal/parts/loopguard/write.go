package loopguard

import (
	"slices"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

const (
	maxPaths    = 10 // in a report
	maxVersions = 32 // of one handler's writes
)

// ReportedByEngine stands for the handler in a [Write] of conditions that report on handlers, because the engine writes those itself.
const ReportedByEngine = ""

// A Write is what a handler has written to its object.
type Write struct {
	Handler  string
	Fields   patch.MergePatch // how the essence has changed
	Paths    []string         // the written fields, including those outside the essence; sorted
	Versions []string         // the resource versions after the writes, oldest first
}

// NewWrite returns the write that a patch has made, with Handler left empty. base and stored are the contents before and after the write,
// and version is the resource version after it.
func NewWrite(builder essence.Builder, base, stored map[string]any, doc patch.MergePatch, version string) Write {
	before, after := builder.Build(doc.CurrentValues(base).Apply(stored)), builder.Build(stored)
	return Write{Fields: patch.Diff(before, after).DeepCopy(), Paths: mergeSorted(nil, doc.Paths()), Versions: []string{version}}
}

// with merges a later write by the same handler.
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
