package cause_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	dto "github.com/prometheus/client_model/go"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

type m = map[string]any

// sized returns an essence with a size.
func sized(size int) m { return m{"spec": m{"size": int64(size)}} }

// tagged returns an essence with a size and tags.
func tagged(size int, tags ...any) m { return m{"spec": m{"size": int64(size), "tags": tags}} }

// object returns an object with an essence, and with fields that do not belong to an essence.
func object(essence m) m {
	out := m{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": m{"name": "w", "resourceVersion": "7"}, "status": m{"phase": "Up"}}
	maps.Copy(out, essence)
	return out
}

// text returns the stored form of an essence.
func text(of m) []byte {
	out, err := essence.Encode(of)
	if err != nil {
		panic(err)
	}
	return out
}

// digestText returns the stored form of an essence that is too large for the object.
func digestText(of m) []byte { return text(m{essence.DigestDocumentKey: essence.DigestOf(of)}) }

// snapshot returns a complete snapshot of an essence.
func snapshot(of m) cause.Snapshot {
	return cause.Snapshot{Digest: essence.DigestOf(of), Essence: text(of)}
}

// digestSnapshot returns a snapshot that has only the digest of an essence.
func digestSnapshot(of m) cause.Snapshot { return cause.Snapshot{Digest: essence.DigestOf(of)} }

// pinText returns the stored form of a pin for an object with a baseline; nil if the object has none.
func pinText(p cause.Pin, baseline []byte) []byte {
	out, err := p.Encode(baseline)
	if err != nil {
		panic(err)
	}
	return out
}

// records are the reasons for which the object has records, and those for which handlers were called.
type records struct{ stored, attempted []string }

func (r records) HasRecords(reason string) bool  { return slices.Contains(r.stored, reason) }
func (r records) HasAttempts(reason string) bool { return slices.Contains(r.attempted, reason) }

// waiting returns the records of handlers that were not called for a reason.
func waiting(reason cause.Reason) records { return records{stored: []string{string(reason)}} }

// attempted returns the records of handlers that were called for a reason.
func attempted(reason cause.Reason) records {
	return records{stored: []string{string(reason)}, attempted: []string{string(reason)}}
}

// untyped is a detector for a kind without a Go type.
func untyped() *cause.Detector {
	return &cause.Detector{Name: "widget", Retype: func(e m) (m, error) { return e, nil }}
}

// detect detects the cause of an object that has a size and tags only.
func detect(in cause.Input) cause.Cause {
	if in.Progress == nil {
		in.Progress = records{}
	}
	if in.Log.GetSink() == nil {
		in.Log = logr.Discard()
	}
	return untyped().Detect(in)
}

// changed is the difference between two sizes.
func changed(from, to int) diff.Diff {
	return diff.Diff{{Op: diff.Change, Path: diff.Path{"spec", "size"}, Old: int64(from), New: int64(to)}}
}

// added is the difference between nothing and an essence.
func added(whole m) diff.Diff { return diff.Diff{{Op: diff.Add, New: whole}} }

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if difference := cmp.Diff(want, got, cmpopts.IgnoreUnexported(cause.Cause{})); difference != "" {
		t.Errorf("%s (-want +got):\n%s", what, difference)
	}
}

// logTo returns a logger that appends its lines up to V(1).
func logTo(lines *[]string) logr.Logger {
	return funcr.New(func(_, line string) { *lines = append(*lines, line) }, funcr.Options{Verbosity: 1})
}

// unreadable returns the number of unreadable values that a controller has counted.
func unreadable(t *testing.T, controller string) float64 {
	t.Helper()
	var out dto.Metric
	if err := metrics.UnreadableState.WithLabelValues(controller).Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.GetCounter().GetValue()
}

// edit returns an edit of an object with an essence by a daemon.
func edit(base m, doc patch.MergePatch) cause.BackgroundEdit {
	return cause.BackgroundEdit{Base: object(base), Patch: doc}
}
