package commit_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

type m = map[string]any

const (
	prefix      = "kopf.zalando.org/"
	baselineKey = prefix + "last-handled-configuration"
	digestKey   = prefix + "last-handled-digest"
	pinKey      = prefix + "pinned-configuration"
	finalizer   = prefix + "KopfFinalizerMarker"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if difference := cmp.Diff(want, got, cmpopts.EquateEmpty()); difference != "" {
		t.Errorf("%s (-want +got):\n%s", what, difference)
	}
}

// newBuilder returns a builder with stores for records and baselines, and the handlers a and b.
func newBuilder(store progress.Store, stored progress.Baseline) *commit.Builder {
	baseline := essence.WithDigestFallback(stored, store)
	pin := progress.Pin(stored, store)
	return &commit.Builder{
		Detector: &cause.Detector{
			Essence: essence.Builder{Cleaners: []essence.Cleaner{baseline, store, pin}},
			Retype:  func(e m) (m, error) { return e, nil },
		},
		Store: store, Baseline: baseline, Pin: pin, HandlerIDs: []string{"a", "b"}, Finalizer: finalizer, HasStatus: true,
	}
}

// defaults returns a builder with the default stores.
func defaults() *commit.Builder { return newBuilder(progress.Smart(), progress.AnnotationBaseline("")) }

// sized returns an essence with a size.
func sized(size int) m { return m{"spec": m{"size": int64(size)}} }

// text returns the stored form of an essence.
func text(of m) string {
	out, err := essence.Encode(of)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// object returns an object with an essence and annotations, which are given as key, value, key, value...
func object(essence m, annotations ...string) *unstructured.Unstructured {
	meta := m{"name": "w", "namespace": "default", "uid": "1", "resourceVersion": "7"}
	obj := &unstructured.Unstructured{Object: m{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": meta}}
	maps.Copy(obj.Object, essence)
	for i := 0; i < len(annotations); i += 2 {
		annotate(obj, annotations[i], annotations[i+1])
	}
	return obj
}

func annotate(obj *unstructured.Unstructured, key, value string) {
	all := obj.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	obj.SetAnnotations(all)
}

// handled returns an object whose last-handled configuration is the essence with a size.
func handled(last int, live m) *unstructured.Unstructured {
	return object(live, baselineKey, text(sized(last))+"\n")
}

// deleted marks an object as being deleted, with our finalizer.
func deleted(obj *unstructured.Unstructured) *unstructured.Unstructured {
	meta := obj.Object["metadata"].(m)
	meta["deletionTimestamp"], meta["finalizers"] = "2026-01-02T03:04:05Z", []any{finalizer}
	return obj
}

// reconcile is the state of a reconcile, as the engine computes it.
type reconcile struct {
	t       *testing.T
	builder *commit.Builder
	obj     *unstructured.Unstructured
	cause   cause.Cause
	in      commit.Input
}

// begin detects the cause of an object and selects the handlers a and b. options change the input of the detection.
func begin(t *testing.T, b *commit.Builder, obj *unstructured.Unstructured, options ...func(*cause.Input)) *reconcile {
	t.Helper()
	state, err := progress.Load(b.Store, obj, b.HandlerIDs)
	if err != nil {
		t.Fatal(err)
	}
	in := cause.Input{
		Facts:   cause.Facts{Deleting: obj.GetDeletionTimestamp() != nil, HasFinalizer: len(obj.GetFinalizers()) > 0},
		Content: obj.Object, Baseline: b.Baseline.Fetch(obj), Pin: b.Pin.Fetch(obj), Progress: state, Log: logr.Discard(),
	}
	for _, option := range options {
		option(&in)
	}
	r := &reconcile{t: t, builder: b, obj: obj, cause: b.Detector.Detect(in)}
	if r.cause.Reset == cause.RestartUpdate {
		state.Restart("update")
	}
	if r.cause.Reason.HasHandlers() {
		state.Begin(string(r.cause.Reason), b.HandlerIDs, now)
	}
	r.in = commit.Input{Object: obj, Content: obj.Object, Cause: &r.cause, Progress: state, Now: now}
	return r
}

// initial marks the object as seen in a listing.
func initial(in *cause.Input) { in.Initial = true }

// finish marks all handlers as finished.
func (r *reconcile) finish() *reconcile {
	for _, id := range r.builder.HandlerIDs {
		r.in.Progress.RecordOutcome(id, progress.Outcome{Final: true, Success: true, Attempted: true}, now)
	}
	r.in.Finished = true
	return r
}

// patched adds the changes of handlers.
func (r *reconcile) patched(docs ...patch.MergePatch) *reconcile {
	for _, doc := range docs {
		r.in.Patches = append(r.in.Patches, &commit.HandlerPatch{Patch: doc})
	}
	return r
}

// build returns the transaction. The input must not change.
func (r *reconcile) build() commit.Transaction {
	r.t.Helper()
	before := runtime.DeepCopyJSON(r.obj.Object)
	tx, err := r.builder.Build(r.in)
	if err != nil {
		r.t.Fatal(err)
	}
	equal(r.t, "object after Build", r.obj.Object, before)
	if tx.Change.Before != r.in.Object {
		r.t.Error("the change does not refer to the object for which it was computed")
	}
	equal(r.t, "content of the change", tx.Change.Content, before)
	return tx
}

// written returns the object after a change.
func written(change *patch.Change) *unstructured.Unstructured {
	content := change.FrameworkPatch.Apply(change.HandlerPatch.Apply(change.Content))
	return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}
}

// keys returns the annotations that a patch changes: "+key" if it sets them, and "-key" if it removes them. Other fields are returned as they are.
func keys(doc patch.MergePatch) map[string]bool {
	out := map[string]bool{}
	for key, value := range doc {
		meta, _ := value.(m)
		annotations, ok := meta["annotations"].(m)
		if key != "metadata" || !ok || len(meta) != 1 {
			out[key] = true
			continue
		}
		for name, value := range annotations {
			sign := "+"
			if value == nil {
				sign = "-"
			}
			out[sign+strings.TrimPrefix(name, prefix)] = true
		}
	}
	return out
}

// set returns a set of words.
func set(words ...string) map[string]bool {
	out := map[string]bool{}
	for _, word := range words {
		out[word] = true
	}
	return out
}

const (
	setBaseline, removePin = "+last-handled-configuration", "-pinned-configuration"
	setDigest, setPin      = "+last-handled-digest", "+pinned-configuration"
)

// pinOf returns the pin of an object.
func pinOf(t *testing.T, obj *unstructured.Unstructured) (p cause.Pin) {
	t.Helper()
	if err := json.Unmarshal([]byte(obj.GetAnnotations()[pinKey]), &p); err != nil {
		t.Fatalf("the pin is unreadable: %v", err)
	}
	return p
}

// recordOf returns the record of a handler.
func recordOf(t *testing.T, b *commit.Builder, obj *unstructured.Unstructured, id string) progress.Record {
	t.Helper()
	record, err := b.Store.Fetch(obj, id)
	if err != nil || record == nil {
		t.Fatalf("no record of handler %q: %v", id, err)
	}
	return *record
}

// pin returns a pin of the essence with a size for an object with a baseline; none for size 0.
func pin(size, baseline int) cause.Pin {
	p := cause.Pin{Snapshot: cause.Snapshot{Digest: essence.DigestOf(sized(size)), Essence: json.RawMessage(text(sized(size)))}}
	if baseline != 0 {
		p.Since = essence.Digest([]byte(text(sized(baseline))))
	}
	return p
}

// store stores records on an object.
func store(t *testing.T, b *commit.Builder, obj *unstructured.Unstructured, records map[string]progress.Record) *unstructured.Unstructured {
	t.Helper()
	for id, record := range records {
		if err := b.Store.Store(obj, id, record); err != nil {
			t.Fatal(err)
		}
	}
	return obj
}
