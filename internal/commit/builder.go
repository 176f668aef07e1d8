package commit

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Builder builds the transactions of one kind. It is safe for concurrent use.
type Builder struct {
	Detector *cause.Detector
	Store    progress.Store
	Baseline essence.DigestBaseline
	Pin      progress.Baseline
	// Stamps is zero if the framework's part is stored outside of the objects, by their uids.
	Stamps progress.Stamps
	// HandlerIDs are the ids of all cause handlers. At the end of a cycle, the transaction removes the records of other handlers.
	HandlerIDs []string
	Finalizer  string
	HasStatus  bool
	// DigestOnly is true if the objects must not contain essences, but only their digests.
	DigestOnly bool
}

// SameFrameworkPart reports whether two states of an object have the same records, baseline and pin.
func (b *Builder) SameFrameworkPart(one, other map[string]any) bool {
	for _, item := range diff.Of(b.frameworkPart(one), b.frameworkPart(other)) {
		if !isEmpty(item.Old) || !isEmpty(item.New) {
			return false
		}
	}
	return true
}

// frameworkPart returns the part of an object that the framework has written: records, baseline and pin.
func (b *Builder) frameworkPart(content map[string]any) map[string]any {
	return patch.Diff(b.withoutFrameworkPart(content), content)
}

func (b *Builder) withoutFrameworkPart(content map[string]any) map[string]any {
	without := runtime.DeepCopyJSON(content)
	b.clear(without)
	return without
}

// clear removes the framework's part from a JSON form.
func (b *Builder) clear(content map[string]any) {
	for _, cleaner := range b.Detector.Essence.Cleaners {
		progress.ClearStored(cleaner, content)
	}
}

// isEmpty reports whether a value contains nothing but empty maps. Removing the last record may leave empty maps.
func isEmpty(value any) bool {
	fields, isMap := value.(map[string]any)
	for _, field := range fields {
		if !isEmpty(field) {
			return false
		}
	}
	return isMap || value == nil
}

func now() time.Time { return time.Now() }
