package kopf_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

const revisionKey = "kopf.zalando.org/revision"

// A revisionWorld is an object that versions of an operator handle one after the other. The handlers do what the test says.
type revisionWorld struct {
	*testing.T
	*kopftest.Cluster
	log  texts
	do   map[string]error // what handlers return; nil without an entry
	obj  configMap
	stop func() error
}

func revisionTest(t *testing.T, test func(*revisionWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &revisionWorld{T: t, Cluster: kopftest.Memory(t), do: map[string]error{}}
		w.obj = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Data: map[string]string{"a": "1", "b": "0"}}
		test(w)
		if err := w.stop(); err != nil {
			t.Error(err)
		}
	})
}

func (w *revisionWorld) handler(id string) kopf.Handler[configMap] {
	return func(_ context.Context, req *kopf.Request[configMap]) error {
		w.log.addf("%s:%s#%d", id, req.Reason, req.Attempt.Number)
		if req.Reason == kopf.ReasonRevision && (len(req.Diff) > 0 || req.Old == nil || req.Old.Data["a"] != req.Object.Data["a"]) {
			w.log.addf("the diff is %v, and Old is %v", req.Diff, req.Old)
		}
		return w.do[id]
	}
}

// upgrade replaces the running operator with one whose handlers have other revisions. 0 means none.
func (w *revisionWorld) upgrade(apply, field int, options ...kopf.Option) {
	w.Helper()
	if w.stop != nil {
		if err := w.stop(); err != nil {
			w.Fatal(err)
		}
	}
	revision := func(n int) kopf.HandlerOption {
		if n == 0 {
			return nil
		}
		return kopf.Revision(n)
	}
	things := kopf.For(&corev1.ConfigMap{}).
		OnCreateOrUpdate("apply", w.handler("apply"), revision(apply)).
		OnField("field", "data.b", w.handler("field"), revision(field)).
		OnDelete("delete", w.handler("delete"))
	w.stop = runShard(w.T, w.Cluster, append([]kopf.Option{things}, options...)...)
}

func (w *revisionWorld) patch(text string) {
	w.Helper()
	if err := w.Client.Patch(w.Context(), w.obj.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(text))); err != nil {
		w.Fatal(err)
	}
}

// expect compares the calls of the last minute, and the revisions that the object's note says afterwards, such as "apply 1 (update)".
func (w *revisionWorld) expect(calls string, noted ...string) {
	w.Helper()
	expectTexts(w.T, &w.log, calls)
	w.Get(w.T, w.obj)
	var note struct {
		Pending  map[string]int
		Handlers map[string]struct {
			Revision int
			Cause    string
			Failed   bool
		}
	}
	if text := w.obj.Annotations[revisionKey]; text != "" {
		if err := json.Unmarshal([]byte(text), &note); err != nil {
			w.Errorf("the note %q: %v", text, err)
		}
	}
	var got []string
	for _, id := range slices.Sorted(maps.Keys(note.Handlers)) {
		h := note.Handlers[id]
		if note.Pending[id] == h.Revision {
			w.Errorf("%s is pending for a revision that it was called for: %s", id, w.obj.Annotations[revisionKey])
		}
		text := fmt.Sprintf("%s %d (%s)", id, h.Revision, h.Cause)
		if h.Failed {
			text += " failed"
		}
		got = append(got, text)
	}
	if !slices.Equal(got, noted) {
		w.Errorf("the note says %q, want %q: %s", got, noted, w.obj.Annotations[revisionKey])
	}
}

// expectRecords compares the handlers whose records are on the object.
func (w *revisionWorld) expectRecords(want ...string) {
	w.Helper()
	var got []string
	for _, key := range slices.Sorted(maps.Keys(w.obj.Annotations)) {
		if name, ours := strings.CutPrefix(key, "kopf.zalando.org/"); ours && key != revisionKey && key != baselineKey && !strings.HasPrefix(name, "state-of-") {
			got = append(got, name)
		}
	}
	if !slices.Equal(got, want) {
		w.Errorf("records %q, want %q", got, want)
	}
}

func TestRevision_ReachesOldObjects(t *testing.T) {
	revisionTest(t, func(w *revisionWorld) {
		w.upgrade(0, 0)
		w.Create(w.T, w.obj)
		w.expect("apply:create#0, field:create#0")
		w.upgrade(1, 0)
		w.expect("apply:revision#0", "apply 1 (revision)")
		version := w.obj.ResourceVersion
		w.upgrade(1, 0)
		w.expect("", "apply 1 (revision)")
		if w.obj.ResourceVersion != version {
			t.Error("a restart has written the object")
		}
		w.patch(`{"data":{"a":"2"}}`)
		w.expect("apply:update#0", "apply 1 (revision)")
		w.upgrade(3, 1)
		w.expect("apply:revision#0, field:revision#0", "apply 3 (revision)", "field/data.b 1 (revision)")
		w.patch(`{"data":{"b":"1"}}`)
		w.expect("apply:update#0, field:update#0", "apply 3 (revision)", "field/data.b 1 (revision)")

		w.upgrade(2, 1) // a rollback calls nothing, and is noted with the next call
		w.expect("", "apply 3 (revision)", "field/data.b 1 (revision)")
		w.patch(`{"data":{"a":"3"}}`)
		w.expect("apply:update#0", "apply 2 (update)", "field/data.b 1 (revision)")
		w.upgrade(3, 1)
		w.expect("apply:revision#0", "apply 3 (revision)", "field/data.b 1 (revision)")

		w.upgrade(0, 0) // without revisions, the next write removes the note
		w.expect("", "apply 3 (revision)", "field/data.b 1 (revision)")
		w.patch(`{"data":{"a":"4"}}`)
		w.expect("apply:update#0")
		if err := w.Client.Delete(w.Context(), w.obj); err != nil {
			t.Error(err)
		}
		expectTexts(t, &w.log, "delete:delete#0")
	})
}

func TestRevision_NewObjects(t *testing.T) {
	revisionTest(t, func(w *revisionWorld) {
		w.upgrade(2, 1)
		w.do["field"] = kopf.Permanent(errors.New("invalid"))
		w.Create(w.T, w.obj)
		w.expect("apply:create#0, field:create#0", "apply 2 (create)", "field/data.b 1 (create) failed")
	})
}

// A user's change waits for no delay of a revision, and handlers that it has called are not called again for the revision.
func TestRevision_EditsDoNotWait(t *testing.T) {
	revisionTest(t, func(w *revisionWorld) {
		w.upgrade(0, 0)
		w.Create(w.T, w.obj)
		w.expect("apply:create#0, field:create#0")
		w.do["apply"], w.do["field"] = kopf.Temporary(errors.New("busy"), time.Hour), kopf.Temporary(errors.New("busy"), 2*time.Hour)
		w.upgrade(1, 1)
		w.expect("apply:revision#0, field:revision#0")
		w.expectRecords("apply", "field.data.b")
		delete(w.do, "apply")
		w.patch(`{"data":{"a":"2"}}`)
		w.expect("apply:update#0", "apply 1 (update)")
		<-time.After(time.Hour)
		w.expect("", "apply 1 (update)")
		delete(w.do, "field")
		<-time.After(time.Hour)
		w.expect("field:revision#1", "apply 1 (update)", "field/data.b 1 (revision)") // its attempts and its delay go on
		w.expectRecords()
	})
}

// A handler whose outcome is stored is not called again, also if the operator is replaced in the middle. No record says so, because another
// operator would take it for one of its own cause.
func TestRevision_Continues(t *testing.T) {
	revisionTest(t, func(w *revisionWorld) {
		w.upgrade(0, 0)
		w.Create(w.T, w.obj)
		w.expect("apply:create#0, field:create#0")
		w.do["field"] = kopf.Temporary(errors.New("busy"), time.Hour)
		w.upgrade(1, 1)
		w.expect("apply:revision#0, field:revision#0", "apply 1 (revision)")
		w.expectRecords("field.data.b")
		w.upgrade(1, 1)
		w.expect("", "apply 1 (revision)")
		w.upgrade(2, 1) // in the middle of the first one
		w.expect("apply:revision#0", "apply 2 (revision)")
		delete(w.do, "field")
		<-time.After(time.Hour)
		w.expect("field:revision#1", "apply 2 (revision)", "field/data.b 1 (revision)")
		w.expectRecords()
	})
}

// A success repairs a failure, so that a rollout doesn't count it.
func TestRevision_Repaired(t *testing.T) {
	revisionTest(t, func(w *revisionWorld) {
		w.upgrade(0, 0)
		w.Create(w.T, w.obj)
		w.expect("apply:create#0, field:create#0")
		w.do["apply"] = kopf.Permanent(errors.New("invalid"))
		w.upgrade(1, 0)
		w.expect("apply:revision#0", "apply 1 (revision) failed")
		w.patch(`{"data":{"a":"2"}}`)
		w.expect("apply:update#0", "apply 1 (revision) failed")
		delete(w.do, "apply")
		w.patch(`{"metadata":{"annotations":{"kopf.zalando.org/retry.apply":"now"}}}`)
		w.expect("apply:update#0", "apply 1 (revision)")
		w.upgrade(2, 0) // removes the answer
		w.expect("apply:revision#0", "apply 2 (revision)")
		w.expectRecords()
	})
}

// What an earlier version has finished doesn't count for a later one, even if the cycle is still running.
func TestRevision_UnfinishedCycles(t *testing.T) {
	for name, cycle := range map[string]func(w *revisionWorld){
		"create": func(w *revisionWorld) {
			w.Create(w.T, w.obj)
			w.expect("apply:create#0, field:create#0", "apply 1 (create)")
		},
		"update": func(w *revisionWorld) {
			w.do["field"] = nil
			w.Create(w.T, w.obj)
			w.expect("apply:create#0, field:create#0", "apply 1 (create)", "field/data.b 1 (create)")
			w.do["field"] = kopf.Temporary(errors.New("busy"), time.Hour)
			w.patch(`{"data":{"b":"1"}}`)
			w.expect("apply:update#0, field:update#0", "apply 1 (create)", "field/data.b 1 (create)")
		},
	} {
		t.Run(name, func(t *testing.T) {
			revisionTest(t, func(w *revisionWorld) {
				w.upgrade(1, 1)
				w.do["field"] = kopf.Temporary(errors.New("busy"), time.Hour)
				cycle(w)
				w.upgrade(2, 1)
				expectTexts(t, &w.log, "")
				delete(w.do, "field")
				<-time.After(time.Hour)
				w.expect("apply:revision#0, field:"+name+"#1", "apply 2 (revision)", "field/data.b 1 (create)")
			})
		})
	}
}

// A handler that others come after keeps its record. That must not count for a later revision, and its failure must be seen.
func TestRevision_After(t *testing.T) {
	revisionTest(t, func(w *revisionWorld) {
		run := func(a int) {
			if w.stop != nil {
				if err := w.stop(); err != nil {
					t.Fatal(err)
				}
			}
			w.stop = runShard(w.T, w.Cluster, kopf.For(&corev1.ConfigMap{}).
				OnUpdate("a", w.handler("a"), kopf.Revision(a)).
				OnUpdate("b", w.handler("b"), kopf.Revision(1), kopf.After("a")).
				OnUpdate("c", w.handler("c"), kopf.Revision(1)), kopf.WithLifecycle(progress.OneByOne))
		}
		w.upgrade(0, 0)
		w.Create(w.T, w.obj)
		w.expect("apply:create#0, field:create#0")
		w.do["b"] = kopf.Temporary(errors.New("busy"), time.Hour)
		run(1)
		w.expect("a:revision#0, b:revision#0, c:revision#0", "a 1 (revision)", "c 1 (revision)")
		w.do["a"] = kopf.Permanent(errors.New("invalid"))
		run(2)
		w.expect("a:revision#0", "a 2 (revision) failed", "b 1 (revision) failed", "c 1 (revision)")
		w.expectRecords()
	})
}

// An object that an operator without revisions has handled since counts as not handled, and a restored one, too.
func TestRevision_OtherOperators(t *testing.T) {
	revisionTest(t, func(w *revisionWorld) {
		w.upgrade(1, 0)
		w.Create(w.T, w.obj)
		w.expect("apply:create#0, field:create#0", "apply 1 (create)")
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		other, err := json.Marshal(map[string]string{baselineKey: `{"data":{"a":"2","b":"0"}}` + "\n"})
		if err != nil {
			t.Fatal(err)
		}
		w.patch(`{"data":{"a":"2"},"metadata":{"annotations":` + string(other) + `}}`)
		w.stop = nil
		w.upgrade(1, 0)
		w.expect("apply:revision#0", "apply 1 (revision)")

		copied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "copy", Annotations: maps.Clone(w.obj.Annotations)}, Data: map[string]string{"a": "3", "b": "0"}}
		w.Create(t, copied)
		w.obj = copied
		w.expect("apply:create#0, field:create#0", "apply 1 (create)")
	})
}

// A webhook that removes the note must not make the operator call the handlers for ever.
func TestRevision_NoteIsDropped(t *testing.T) {
	revisionTest(t, func(w *revisionWorld) {
		w.upgrade(0, 0)
		w.Create(w.T, w.obj)
		w.expect("apply:create#0, field:create#0")
		w.Config.Wrap(func(next http.RoundTripper) http.RoundTripper { return dropNotes{next} })
		w.upgrade(1, 0)
		w.expect("apply:revision#0")
		<-time.After(time.Hour)
		w.expect("")
		w.patch(`{"data":{"a":"2"}}`)
		w.expect("apply:update#0")
	})
}

// dropNotes removes the notes about revisions from all patches.
type dropNotes struct{ next http.RoundTripper }

func (d dropNotes) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		var doc map[string]any
		if err := json.Unmarshal(body, &doc); err != nil {
			return nil, err
		}
		meta, _ := doc["metadata"].(map[string]any)
		all, _ := meta["annotations"].(map[string]any)
		delete(all, revisionKey)
		if body, err = json.Marshal(doc); err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	return d.next.RoundTrip(r)
}

// Handlers of resumes are called for the start, and not again for the revision.
func TestRevision_Resume(t *testing.T) {
	revisionTest(t, func(w *revisionWorld) {
		both := []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate, kopf.ReasonResume}
		run := func(n int) {
			if w.stop != nil {
				if err := w.stop(); err != nil {
					t.Fatal(err)
				}
			}
			w.stop = runShard(w.T, w.Cluster, kopf.For(&corev1.ConfigMap{}).
				On("both", both, w.handler("both"), kopf.Revision(n)).
				OnUpdate("update", w.handler("update"), kopf.Revision(n)).
				OnResume("resume", w.handler("resume")))
		}
		run(1)
		w.Create(w.T, w.obj)
		w.expect("both:create#0", "both 1 (create)", "update 1 (create)")
		run(2)
		w.expect("both:resume#0, resume:resume#0, update:revision#0", "both 2 (resume)", "update 2 (revision)")
		run(2)
		w.expect("both:resume#0, resume:resume#0", "both 2 (resume)", "update 2 (revision)")
	})
}

func TestRevision_Mistakes(t *testing.T) {
	ok := func(context.Context, *kopf.Request[configMap]) error { return nil }
	things := func() *kopf.Resource[configMap] { return kopf.For(&corev1.ConfigMap{}) }
	for want, options := range map[string][]kopf.Option{
		"Revision(0): use a number from 1":              {things().OnUpdate("a", ok, kopf.Revision(0))},
		"neither for creations nor for updates: remove": {things().OnDelete("a", ok, kopf.Revision(1))},
		"Revision has no effect on OnEvent handlers":    {things().OnEvent("a", ok, kopf.Revision(1))},
		"Revision needs progress in annotations":        {things().OnUpdate("a", ok, kopf.Revision(1)), kopf.WithRemote(&progress.SideObjects{Client: kopftest.Memory(t).Client, Reader: kopftest.Memory(t).Client})},
	} {
		err := kopf.SetupWithManager(newShardManager(t, kopftest.Memory(t)), options...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got the error %v, want one with %q", err, want)
		}
	}
}
