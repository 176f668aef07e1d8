package commit_test

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// The limit of the API server for all annotations of an object, and the limit up to which optional parts are stored.
const (
	limit  = 256 << 10
	budget = 240 << 10
)

// large returns an essence whose encoded form has a number of bytes.
func large(size int, fill string) m {
	empty := len(text(m{"spec": m{"blob": ""}}))
	return m{"spec": m{"blob": strings.Repeat(fill, size-empty)}}
}

// fill adds an annotation of kubectl, which is not part of the essence, so that all annotations together have a number of bytes.
func fill(obj *unstructured.Unstructured, size int) *unstructured.Unstructured {
	const key = "kubectl.kubernetes.io/last-applied-configuration"
	annotate(obj, key, strings.Repeat("x", size-len(key)-commit.AnnotationsSize(obj)))
	return obj
}

func TestAnnotationsSize(t *testing.T) {
	if got := commit.AnnotationsSize(object(sized(1))); got != 0 {
		t.Errorf("AnnotationsSize = %d without annotations, want 0", got)
	}
	if got := commit.AnnotationsSize(object(sized(1), "ab", "cde", "f", "")); got != 6 {
		t.Errorf("AnnotationsSize = %d, want 6", got)
	}
	if got := commit.AnnotationsSize(fill(object(sized(1), "a", "b"), limit)); got != limit {
		t.Errorf("AnnotationsSize = %d, want %d", got, limit)
	}
}

// A baseline uses the whole limit of the API server. One byte more, and only its digest is stored.
func TestBuild_StoresDigestOfLargeBaseline(t *testing.T) {
	// The key and the newline at the end also count.
	const overhead = len(baselineKey) + 1
	// A digest has 43 bytes, and is stored with that of the text for other operators.
	const digestSize = len(digestKey) + len(`{"digest":"","since":""}`) + 2*43
	for _, test := range []struct {
		name     string
		obj      *unstructured.Unstructured
		patches  []patch.MergePatch
		tooLarge bool
		kept     string // the text for other operators besides the digest
	}{
		{name: "B-31 the baseline fits exactly", obj: object(large(limit-overhead, "x"))},
		{name: "B-31 the baseline is one byte too large", obj: object(large(limit-overhead+1, "x")), tooLarge: true, kept: "{}"},
		{name: "B-31 with annotations of others, the baseline fits exactly", obj: fill(object(sized(1)), limit-overhead-len(text(sized(1))))},
		{
			name: "B-31 with annotations of others, the baseline is one byte too large", obj: fill(object(large(1000, "x")), limit-overhead-1000+1),
			tooLarge: true, kept: "{}",
		},
		{name: "B-31 the earlier baseline remains for other operators", obj: handled(1, large(limit, "x")), tooLarge: true, kept: text(sized(1))},
		{
			name: "B-31 the earlier baseline does not fit beside the digest", tooLarge: true, kept: "{}",
			obj: object(large(limit, "y"), baselineKey, text(large(budget, "x"))+"\n"),
		},
		{
			name: "B-31 the earlier baseline just fits beside the digest", tooLarge: true, kept: text(large(budget-overhead-digestSize, "x")),
			obj: object(large(limit, "y"), baselineKey, text(large(budget-overhead-digestSize, "x"))+"\n"),
		},
		{
			name: "B-31 the earlier baseline is one byte too large beside the digest", tooLarge: true, kept: "{}",
			obj: object(large(limit, "y"), baselineKey, text(large(budget-overhead-digestSize+1, "x"))+"\n"),
		},
		{
			name: "B-31 the annotations are too large already, and the baseline does not grow", obj: fill(handled(1, sized(2)), limit+1),
		},
		{
			name: "B-31 handlers add annotations", obj: object(large(limit-overhead-5, "x")), tooLarge: true, kept: "{}",
			patches: []patch.MergePatch{{"metadata": m{"annotations": m{prefix + "x": "12345"}}}},
		},
		{
			name: "B-31 handlers remove annotations", obj: fill(object(sized(1)), limit),
			patches: []patch.MergePatch{{"metadata": m{"annotations": m{"kubectl.kubernetes.io/last-applied-configuration": nil}}}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := defaults()
			live := b.Detector.Essence.Build(test.obj.Object)
			tx := begin(t, b, test.obj).finish().patched(test.patches...).build()
			if tx.BaselineTooLarge != test.tooLarge {
				t.Errorf("BaselineTooLarge = %t, want %t", tx.BaselineTooLarge, test.tooLarge)
			}
			obj := written(tx.Change)
			if size := commit.AnnotationsSize(obj); size > max(limit, commit.AnnotationsSize(test.obj)) {
				t.Errorf("the annotations have %d bytes, more than the API server accepts", size)
			}
			want := text(live)
			if test.tooLarge {
				want = text(m{essence.DigestDocumentKey: essence.DigestOf(live)})
				equal(t, "text for other operators", obj.GetAnnotations()[baselineKey], test.kept+"\n")
			}
			equal(t, "stored baseline", string(tx.NewBaseline), want)
			c := begin(t, b, obj).cause
			equal(t, "reason afterwards", c.Reason, cause.Noop)
			obj.Object["spec"] = m{"blob": "z"}
			c = begin(t, b, obj).cause
			equal(t, "reason after an edit", c.Reason, cause.Update)
			if c.IsOldKnown() == test.tooLarge {
				t.Errorf("IsOldKnown = %t after an edit, want %t", c.IsOldKnown(), !test.tooLarge)
			}
		})
	}
}

// A digest is replaced by the complete essence as soon as that fits.
func TestBuild_ReplacesDigest(t *testing.T) {
	b := defaults()
	obj := written(begin(t, b, object(large(limit, "x"))).finish().build().Change)
	obj.Object["spec"] = sized(1)["spec"]
	tx := begin(t, b, obj).finish().build()
	equal(t, "B-31 annotations", written(tx.Change).GetAnnotations(), map[string]string{baselineKey: text(sized(1)) + "\n"})
	equal(t, "B-31 stored baseline", string(tx.NewBaseline), text(sized(1)))
}

// While handlers are running, a complete baseline is not replaced by a digest.
func TestBuild_KeepsCompleteBaselineWhileRunning(t *testing.T) {
	b := defaults()
	own := patch.MergePatch{"spec": m{"own": strings.Repeat("x", limit)}}
	tx := begin(t, b, handled(1, sized(2))).patched(own).build()
	if tx.BaselineTooLarge || !strings.HasPrefix(string(tx.NewBaseline), `{"spec":{"own":"xxx`) {
		t.Errorf("B-31: BaselineTooLarge = %t, and the stored baseline is %.60s", tx.BaselineTooLarge, tx.NewBaseline)
	}
	tx = begin(t, b, handled(1, sized(2))).finish().patched(own).build()
	equal(t, "B-31 the baseline is too large at the end", tx.BaselineTooLarge, true)

	// A digest cannot become a complete essence: it remains a digest.
	obj := written(begin(t, b, object(large(limit, "x"))).finish().build().Change)
	r := begin(t, b, obj, initial).patched(patch.MergePatch{"spec": m{"own": "x"}})
	tx = r.build()
	equal(t, "B-31 the baseline is a digest while running", tx.BaselineTooLarge, true)
	equal(t, "B-31 reason afterwards", begin(t, b, written(tx.Change)).cause.Reason, cause.Noop)
}

// At the end of a cycle, a digest replaces a complete baseline.
func TestBuild_ReplacesCompleteBaselineAtEnd(t *testing.T) {
	b := defaults()
	t.Run("B-31 a daemon has edited the object", func(t *testing.T) {
		tx := begin(t, b, handled(1, large(limit, "x")), func(in *cause.Input) {
			in.Edits = []cause.BackgroundEdit{{Base: sized(1), Patch: patch.MergePatch{"spec": m{"own": "x"}}}}
		}).finish().build()
		equal(t, "BaselineTooLarge", tx.BaselineTooLarge, true)
	})
	t.Run("B-31 the API server has altered the changes of handlers", func(t *testing.T) {
		obj := handled(1, large(limit, "x"))
		c := cause.Cause{Reason: cause.Update, Old: sized(1), New: large(limit, "x"), Live: large(limit, "x")}
		tx, err := b.BuildCorrection(obj, obj.Object, &c, true)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "BaselineTooLarge", tx.BaselineTooLarge, true)
		equal(t, "changed annotations", keys(tx.Change.FrameworkPatch), set(setDigest))
	})
	t.Run("B-31 the API server has altered the changes of handlers, which are running", func(t *testing.T) {
		obj := handled(1, large(limit, "x"))
		c := cause.Cause{Reason: cause.Update, Old: large(limit, "y"), New: sized(1), Live: sized(1)}
		tx, err := b.BuildCorrection(obj, obj.Object, &c, false)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "BaselineTooLarge", tx.BaselineTooLarge, false)
	})
}

// If only the digest of the handled essence is known, it is stored at the end.
func TestBuild_StoresPinnedDigest(t *testing.T) {
	b := defaults()
	p := pin(2, 1)
	p.Essence = nil
	obj := store(t, b, handled(1, sized(3)), map[string]progress.Record{"a": waiting("update")})
	b.Pin.Store(obj, mustEncode(p, text(sized(1))))
	r := begin(t, b, obj).finish()
	r.cause = r.cause.WithSeen()
	tx := r.build()
	equal(t, "B-31 changed annotations", keys(tx.Change.FrameworkPatch), set(setDigest, "-a", setPin))
	next := written(tx.Change)
	c := begin(t, b, next).cause
	equal(t, "B-01 reason of the next cycle", c.Reason, cause.Update)
	equal(t, "B-01 new state of the next cycle", c.New, sized(3))
	equal(t, "B-02 the state that a handler has seen", pinOf(t, next).Seen.Digest, essence.DigestOf(sized(3)))
	next.Object["spec"] = sized(2)["spec"]
	equal(t, "B-02 the edit is undone", begin(t, b, next).cause.Reversed, true)
}

// The essence of a pin is optional: it is stored up to the budget.
func TestBuild_StoresDigestOfLargePin(t *testing.T) {
	records := func(obj *unstructured.Unstructured) *unstructured.Unstructured {
		return store(t, defaults(), obj, map[string]progress.Record{"a": {Started: now, Purpose: "create"}, "b": {Started: now, Purpose: "create"}})
	}
	// The pin of size 1, complete, and its annotation key.
	noBaseline, err := pin(1, 0).Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	complete := len(pinKey) + len(noBaseline)
	for _, test := range []struct {
		name  string
		obj   *unstructured.Unstructured
		added int
		full  bool
	}{
		{name: "B-31 the complete pin fits exactly", obj: fill(records(object(sized(1))), budget-complete), full: true},
		{name: "B-31 the complete pin is one byte too large", obj: fill(records(object(sized(1))), budget-complete+1)},
		{name: "B-31 handlers add annotations", obj: fill(records(object(sized(1))), budget-complete), added: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := defaults()
			r := begin(t, b, test.obj)
			if test.added > 0 {
				r.patched(patch.MergePatch{"metadata": m{"annotations": m{prefix + "x": ""}}})
			}
			obj := written(r.build().Change)
			p := pinOf(t, obj)
			equal(t, "digest", p.Digest, essence.DigestOf(sized(1)))
			if full := p.Essence != nil; full != test.full {
				t.Errorf("the pin has the essence: %t, want %t", full, test.full)
			}
		})
	}
}

// Messages are cut as far as necessary, so that all records fit on the object.
func TestBuild_TruncatesMessages(t *testing.T) {
	const long = 1000
	failing := func(t *testing.T, obj *unstructured.Unstructured) *reconcile {
		r := begin(t, defaults(), obj)
		for _, id := range []string{"a", "b"} {
			r.in.Progress.RecordOutcome(id, progress.Outcome{Err: errors.New(strings.Repeat("m", long)), Attempted: true}, now)
		}
		return r
	}
	// The state with complete messages, and with a digest in the pin: it exceeds the budget.
	const pinWithDigest = len(pinKey) + len(`{"digest":""}`) + 43
	small := commit.AnnotationsSize(written(failing(t, object(sized(1))).build().Change))
	noBaseline, err := pin(1, 0).Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	state := small - len(pinKey) - len(noBaseline) + pinWithDigest
	for _, test := range []struct {
		name  string
		free  int // bytes for our state
		added string
		want  int // the length of each message
	}{
		{name: "B-31 complete messages fit exactly", free: state, want: long},
		{name: "B-31 one byte is missing", free: state - 1, want: 256 + len("...")},
		{name: "B-31 handlers add an annotation", free: state, added: "x", want: 256 + len("...")},
		{name: "B-31 messages of 256 bytes fit exactly", free: state - 2*(long-259), want: 259},
		{name: "B-31 messages of 256 bytes do not fit", free: state - 2*(long-259) - 1, want: 32 + len("...")},
		{name: "B-31 messages of 32 bytes do not fit", free: state - 2*(long-35) - 1, want: len("...")},
		{name: "B-31 nothing fits", free: 100, want: len("...")},
	} {
		t.Run(test.name, func(t *testing.T) {
			obj := fill(object(sized(1)), limit-test.free)
			r := failing(t, obj)
			if test.added != "" {
				r.patched(patch.MergePatch{"metadata": m{"annotations": m{prefix + "x": test.added}}})
			}
			next := written(r.build().Change)
			for _, id := range []string{"a", "b"} {
				if got := len(recordOf(t, r.builder, next, id).Message); got != test.want {
					t.Errorf("the message of handler %s has %d bytes, want %d", id, got, test.want)
				}
			}
		})
	}
}
