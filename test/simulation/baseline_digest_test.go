package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var digestAnnotation = fmt.Sprint(progress.Digest(progress.AnnotationBaseline("")))

// archive is a widget that several operators handle one after another.
type archive struct {
	t     *testing.T
	run   func() // function that runs an operator for some time
	users client.Client
	obj   widget
	calls []string
}

func playArchive(t *testing.T, color string, act func(*archive)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		config, scheme, users := newWorld(t)
		a := &archive{t: t, users: users, obj: &v1.Widget{Spec: v1.WidgetSpec{Size: 1, Color: color}}}
		a.obj.Namespace, a.obj.Name = namespace, "one"
		must(t, users.Create(t.Context(), a.obj))
		a.run = func() {
			runFor(t, config, scheme, time.Minute, kopf.For(&v1.Widget{}).
				On("any", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}, func(_ context.Context, req *kopf.Request[widget]) error {
					a.calls = append(a.calls, fmt.Sprintf("%s known %t diff %d", req.Reason, req.OldKnown(), len(req.Diff)))
					return nil
				}))
			must(t, users.Get(t.Context(), client.ObjectKeyFromObject(a.obj), a.obj))
		}
		a.run()
		act(a)
	})
}

// edit changes the object while no operator runs.
func (a *archive) edit(change func(widget)) {
	a.t.Helper()
	change(a.obj)
	must(a.t, a.users.Update(a.t.Context(), a.obj))
}

func (a *archive) expect(want ...string) {
	a.t.Helper()
	if !slices.Equal(a.calls, want) {
		a.t.Errorf("calls = %q, want %q", a.calls, want)
	}
	a.calls = nil
}

// expectStored checks the baseline that Python kopf reads and whether a digest exists.
func (a *archive) expectStored(part string, digest bool) {
	a.t.Helper()
	stored := a.obj.Annotations[baselineAnnotation]
	if _, is := a.obj.Annotations[digestAnnotation]; is != digest || !strings.Contains(stored, part) {
		a.t.Errorf("digest stored = %t, want %t; baseline = %.100q, want it to contain %q", is, digest, stored, part)
	}
	if strings.Contains(stored, "digest") || !json.Valid([]byte(stored)) {
		a.t.Errorf("baseline = %.100q, want JSON that kopf can read", stored)
	}
}

var tooLarge = strings.Repeat("x", 300<<10)

// B-31, SE-21: if the essence is too large to store, the engine stores a digest next to the baseline.
func TestDigest_LargeObject(t *testing.T) {
	playArchive(t, tooLarge, func(a *archive) {
		a.expect("create known true diff 1")
		a.expectStored("{}\n", true)
		a.run()
		a.expect()
		a.edit(func(w widget) { w.Spec.Size = 2 })
		a.run()
		a.expect("update known false diff 0")
		a.expectStored("{}\n", true)
		a.edit(func(w widget) { w.Spec.Color = "small" })
		a.run()
		a.expect("update known false diff 0")
		a.expectStored(`"small"`, false)
		a.edit(func(w widget) { w.Spec.Color = tooLarge })
		a.run()
		a.expect("update known true diff 1")
		a.expectStored(`"small"`, true) // kopf detects an update from this baseline
		a.run()
		a.expect()
	})
}

// If kopf stores a baseline after the digest was written, the engine uses the baseline and ignores the digest.
func TestDigest_LaterBaselineTakesPrecedence(t *testing.T) {
	playArchive(t, tooLarge, func(a *archive) {
		a.expect("create known true diff 1")
		a.edit(func(w widget) {
			w.Spec.Size, w.Spec.Color = 2, "small"
			w.Annotations[baselineAnnotation] = `{"spec":{"color":"small","size":2}}` + "\n"
		})
		a.run()
		a.expect()
		a.edit(func(w widget) { w.Spec.Size = 3 })
		a.run()
		a.expect("update known true diff 1")
		a.expectStored(`"size":3`, false)
	})
}

// Earlier versions stored the digest in the baseline annotation.
func TestDigest_OfEarlierVersions(t *testing.T) {
	playArchive(t, tooLarge, func(a *archive) {
		a.expect("create known true diff 1")
		a.edit(func(w widget) {
			var stored struct{ Digest string }
			must(t, json.Unmarshal([]byte(w.Annotations[digestAnnotation]), &stored))
			delete(w.Annotations, digestAnnotation)
			w.Annotations[baselineAnnotation] = `{"kopf-runtime.dev/digest":"` + stored.Digest + `"}` + "\n"
		})
		a.run()
		a.expect()
		a.edit(func(w widget) { w.Spec.Size = 2 })
		a.run()
		a.expect("update known false diff 0")
		a.expectStored("{}\n", true)
	})
}

// The engine stores a baseline below the limit of the API server completely, as kopf does.
func TestDigest_NotUsedBelowLimit(t *testing.T) {
	playArchive(t, strings.Repeat("x", 255<<10), func(a *archive) {
		a.expect("create known true diff 1")
		a.expectStored("xxx", false)
		a.edit(func(w widget) { w.Spec.Size = 2 })
		a.run()
		a.expect("update known true diff 1")
		a.expectStored(`"size":2`, false)
	})
}
