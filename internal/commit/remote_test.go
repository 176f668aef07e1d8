package commit_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/suspension"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

var errForbidden = apierrors.NewForbidden(widgets, "w", errors.New("the namespace is being terminated"))

// remote stores the progress of one object.
type remote struct {
	stored     progress.Snapshot
	version    int
	loads      int
	saves      int
	failLoad   error
	failBefore error // of the next save, which is not stored
	failAfter  error // of the next save, which is stored
}

func (r *remote) Load(context.Context, client.Object) (progress.Snapshot, error) {
	r.loads++
	return r.stored, r.failLoad
}

func (r *remote) Save(_ context.Context, _ client.Object, snapshot progress.Snapshot) (string, error) {
	r.saves++
	before, after := r.failBefore, r.failAfter
	r.failBefore, r.failAfter = nil, nil
	switch {
	case before != nil:
		return "", before
	case snapshot.Version != r.stored.Version:
		return "", progress.ErrConflict
	case len(snapshot.Data) == 0:
		r.stored = progress.Snapshot{}
		return "", after
	}
	r.put(string(snapshot.Data))
	if after != nil {
		return "", after
	}
	return r.stored.Version, nil
}

// put stores data like another operator.
func (r *remote) put(data string) {
	r.version++
	r.stored = progress.Snapshot{Data: []byte(data), Version: strconv.Itoa(r.version)}
}

// annotations returns the names of the stored annotations.
func (r *remote) annotations(t *testing.T) map[string]bool {
	t.Helper()
	if len(r.stored.Data) == 0 {
		return nil
	}
	var doc patch.MergePatch
	if err := json.Unmarshal(r.stored.Data, &doc); err != nil {
		t.Fatal(err)
	}
	return keys(doc)
}

func newRemoteOperator(t *testing.T, obj *unstructured.Unstructured) (*operator, *remote) {
	o, r := newOperator(t, defaults(), obj), &remote{}
	o.committer.Remote = r
	return o, r
}

// panickingRemote is a remote whose saves panic.
type panickingRemote struct{ *remote }

func (panickingRemote) Save(context.Context, client.Object, progress.Snapshot) (string, error) {
	panic("the connection is nil")
}

// If the remote of a user panics, the result contains the version that the cache must show: the API server has stored the changes of the handler.
func TestRemote_ResultAfterPanic(t *testing.T) {
	o, r := newRemoteOperator(t, object(sized(1)))
	o.committer.Remote = panickingRemote{r}
	s := o.begin()
	o.call(s, "a", succeeds, phase("Up"))
	func() {
		defer func() { equal(t, "panic", recover(), any("the connection is nil")) }()
		_, _ = s.Write(o.ctx, o.reportConditions)
	}()
	equal(t, "B-10 awaited versions", s.Result().Awaited, []string{o.object().GetResourceVersion()})
}

// The framework's part is saved elsewhere, after the changes of handlers, and the object does not contain it.
func TestRemote_SavesProgress(t *testing.T) {
	o, r := newRemoteOperator(t, object(sized(1)))
	s := o.begin()
	o.call(s, "a", succeeds, phase("Up"))
	o.write(s)
	equal(t, "PROG-09 requests", o.sent(), []string{"/status status.phase"})
	equal(t, "saved annotations", r.annotations(t), set("+a", "+b", setPin))
	equal(t, "annotations of the object", o.object().GetAnnotations(), map[string]string{})
	equal(t, "object of the API server", s.Draft.Stored().Content, o.content)
	equal(t, "has a remote part", s.HasRemotePart(), true)

	s = o.begin()
	equal(t, "loads", r.loads, 1) // this process knows it
	equal(t, "B-14 due", s.Records.Due(now), []string{"b"})
	o.write(o.finish(s, "b"))
	equal(t, "requests of the end", o.sent(), []string{})
	equal(t, "saved annotations at the end", r.annotations(t), set(setBaseline))
	equal(t, "baseline", o.baselines, []string{text(sized(1))})

	o.memory = commit.Memory{} // another process
	s = o.begin()
	equal(t, "next reason", s.Cause.Reason, cause.Noop)
	saves := r.saves
	o.write(s)
	equal(t, "saves without a change", r.saves, saves)
	o.pauses++
	o.begin()
	equal(t, "B-50 loads after a pause", r.loads, 3)
}

// A save that fails is repeated without the changes of handlers. A save without a response may have been accepted.
func TestRemote_RepeatsSave(t *testing.T) {
	for _, test := range []struct {
		name string
		fail func(r *remote)
	}{
		{"B-05 the save is not accepted", func(r *remote) { r.failBefore = errLost }},
		{"B-14 the response is lost", func(r *remote) { r.failAfter = errLost }},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, r := newRemoteOperator(t, object(sized(1)))
			o.write(o.begin())
			s := o.begin()
			o.call(s, "a", succeeds, phase("Up"))
			test.fail(r)
			if _, err := o.tryWrite(s); !errors.Is(err, errLost) || o.pending != s {
				t.Fatalf("the error is %v, and the pending session %v", err, o.pending)
			}
			equal(t, "requests", o.sent(), []string{"/status status.phase"})
			o.write(s)
			equal(t, "repeated requests", o.sent(), []string{})
			equal(t, "version", r.stored.Version, strconv.Itoa(r.version))
			o.memory = commit.Memory{}
			equal(t, "due", o.begin().Records.Due(now), []string{"b"})
		})
	}
}

// If another operator has saved the progress, the write is dropped, and the object is handled with that progress.
func TestRemote_DropsConflictingWrite(t *testing.T) {
	o, r := newRemoteOperator(t, object(sized(1)))
	o.write(o.begin())
	s := o.begin()
	o.call(s, "a", succeeds, phase("Up"))
	r.put(`{"metadata": {"annotations": {"` + baselineKey + `": "` + strings.ReplaceAll(text(sized(1)), `"`, `\"`) + `"}}}`)
	if _, err := o.tryWrite(s); !errors.Is(err, progress.ErrConflict) || o.pending != nil || o.memory.Remote != nil {
		t.Fatalf("the error is %v, Pending = %v, Remote = %v", err, o.pending, o.memory.Remote)
	}
	requests, saves := len(o.sent()), r.saves
	if _, err := o.tryWrite(s); !errors.Is(err, progress.ErrConflict) {
		t.Errorf("the error of a second write is %v", err)
	}
	equal(t, "requests and saves of a second write", []int{len(o.sent()), r.saves - saves}, []int{0, 0})
	equal(t, "requests of the first write", requests, 1)
	equal(t, "B-50 next reason", o.begin().Cause.Reason, cause.Noop)
}

// The garbage collector may delete the document. It is then stored again.
func TestRemote_SavesDeletedDocumentAgain(t *testing.T) {
	o, r := newRemoteOperator(t, object(sized(1)))
	o.write(o.begin())
	r.stored = progress.Snapshot{}
	s := o.begin()
	o.call(s, "a", succeeds, nil)
	o.write(s)
	equal(t, "saved annotations", r.annotations(t), set("+a", "+b", setPin))
	o.memory = commit.Memory{}
	equal(t, "B-14 due", o.begin().Records.Due(now), []string{"b"})
}

// The document is deleted with the release of the object.
func TestRemote_DeletesDocument(t *testing.T) {
	for _, test := range []struct {
		name    string
		prepare func(r *remote)
		deleted bool
		logs    int
	}{
		{"FIN-06 the document", func(*remote) {}, true, 0},
		{"FIN-06 the document cannot be deleted", func(r *remote) { r.failBefore = errLost }, false, 1},
		{"FIN-06 another operator has saved it", func(r *remote) { r.put("{}") }, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, r := newRemoteOperator(t, deleted(object(sized(1))))
			o.write(o.begin())
			s := o.finish(o.begin(), "a", "b")
			test.prepare(r)
			o.write(s)
			equal(t, "requests", o.sent(), []string{"metadata.finalizers"})
			equal(t, "object", o.content, m(nil))
			equal(t, "deleted", len(r.stored.Data) == 0, test.deleted)
			equal(t, "log lines", len(o.logs), test.logs)
			equal(t, "has a remote part", s.HasRemotePart(), false)
			saves := r.saves
			s.DeleteRemote(o.ctx)
			equal(t, "saves of a second deletion", r.saves-saves, 0)
		})
	}
	t.Run("FIN-06 a namespace that is being deleted accepts no document", func(t *testing.T) {
		o, r := newRemoteOperator(t, deleted(object(sized(1))))
		s := o.begin()
		o.call(s, "a", succeeds, nil)
		r.failBefore = errForbidden
		o.write(s)
		equal(t, "B-14 due", o.begin().Records.Due(now), []string{"b"})
		o.write(o.finish(s, "b"))
		equal(t, "object", o.content, m(nil))
	})
	t.Run("B-05 an object that is not being deleted waits for its document", func(t *testing.T) {
		o, r := newRemoteOperator(t, object(sized(1)))
		r.failBefore = errForbidden
		if _, err := o.tryWrite(o.begin()); !errors.Is(err, errForbidden) {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestRemote_ReturnsErrorsOfLoad(t *testing.T) {
	for _, test := range []struct {
		name    string
		prepare func(r *remote)
		want    string
	}{
		{"B-05 the remote is not available", func(r *remote) { r.failLoad = errLost }, "loading the progress: connection reset by peer"},
		{"B-30 the document is not JSON", func(r *remote) { r.put("{") }, "the stored progress cannot be decoded"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, r := newRemoteOperator(t, object(sized(1)))
			test.prepare(r)
			s := o.committer.NewSession(&o.memory)
			if err := s.Draft.SetBase(o.object()); err != nil {
				t.Fatal(err)
			}
			if err := s.UseOverlay(o.ctx); err == nil || !strings.Contains(err.Error(), test.want) || o.memory.Remote != nil {
				t.Errorf("the error is %v, Remote = %v", err, o.memory.Remote)
			}
		})
	}
	t.Run("B-05 before a repeated save", func(t *testing.T) {
		o, r := newRemoteOperator(t, object(sized(1)))
		s := o.begin()
		r.failAfter = errLost
		if _, err := o.tryWrite(s); err == nil {
			t.Fatal("Write returned no error")
		}
		r.failLoad = errUnavailable
		saves := r.saves
		if _, err := o.tryWrite(s); !errors.Is(err, errUnavailable) || r.saves != saves {
			t.Errorf("the error is %v, with %d saves", err, r.saves-saves)
		}
		r.failLoad = nil
		o.write(s)
	})
}

// A save is a request, so a process that was suspended does not save.
func TestRemote_GuardsSave(t *testing.T) {
	withFence(t, func(t *testing.T, o *operator, suspend func()) {
		r := &remote{}
		o.committer.Remote = r
		s := o.begin()
		suspend()
		if _, err := o.tryWrite(s); !errors.Is(err, suspension.ErrDetected) || r.saves > 0 {
			t.Errorf("the error is %v, with %d saves", err, r.saves)
		}
	})
}

// A pending write from before a pause is dropped if another operator has saved the progress.
func TestOvertakenBy_WithRemote(t *testing.T) {
	for _, test := range []struct {
		name      string
		during    func(r *remote)
		overtaken bool
	}{
		{"B-50 no change", func(*remote) {}, false},
		{"B-50 another operator has saved", func(r *remote) { r.put("{}") }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			for lost, fail := range map[string]func(r *remote){
				"a failed save":             func(r *remote) { r.failBefore = errLost },
				"a save without a response": func(r *remote) { r.failAfter = errLost },
			} {
				o, r := newRemoteOperator(t, object(sized(1)))
				o.write(o.begin())
				s := o.begin()
				o.call(s, "a", succeeds, nil)
				fail(r)
				if _, err := o.tryWrite(s); err == nil {
					t.Fatal("Write returned no error")
				}
				o.pauses++
				test.during(r)
				live, err := s.OvertakenBy(o.ctx, 0)
				if err != nil || (live != nil) != test.overtaken || (o.memory.Remote == nil) != test.overtaken {
					t.Errorf("after %s: OvertakenBy returned %v, %v; Remote = %v", lost, live, err, o.memory.Remote)
				}
				if test.overtaken {
					continue
				}
				loads := r.loads
				o.write(s)
				equal(t, "loads of the write after "+lost, r.loads-loads, 1) // for the unknown outcome only
				equal(t, "saved annotations after "+lost, r.annotations(t), set("+a", "+b", setPin))
			}
		})
	}
	t.Run("B-05 the progress cannot be loaded", func(t *testing.T) {
		o, r := newRemoteOperator(t, object(sized(1)))
		s := o.begin()
		o.pauses++
		r.failLoad = errLost
		if live, err := s.OvertakenBy(o.ctx, 0); live != nil || !errors.Is(err, errLost) {
			t.Errorf("OvertakenBy returned %v, %v", live, err)
		}
	})
}
