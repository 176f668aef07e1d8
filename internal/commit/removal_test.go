package commit_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Removing the last record from an object must not remove fields that another client has added since the object was read.
func TestWrite_KeepsFieldsOfOtherClients(t *testing.T) {
	for _, test := range []struct {
		name    string
		builder *commit.Builder
		edit    patch.MergePatch
	}{
		{"PATCH-07 annotations, with the default stores", defaults(), patch.MergePatch{"metadata": m{"annotations": m{"foreign": "x"}}}},
		{
			"PATCH-07 annotations, with the baseline in the status", newBuilder(progress.Smart(), progress.StatusBaseline("")),
			patch.MergePatch{"metadata": m{"annotations": m{"foreign": "x"}}},
		},
		{
			"PATCH-07 the status, with the records in it", newBuilder(progress.Status(""), progress.AnnotationBaseline("")),
			patch.MergePatch{"status": m{"foreign": "x"}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			obj := store(t, test.builder, deleted(object(sized(1))), map[string]progress.Record{"a": waiting("delete"), "b": waiting("delete")})
			o := newOperator(t, test.builder, obj)
			o.content["metadata"].(m)["finalizers"] = []any{finalizer, "other"}
			s := o.finish(o.begin(), "a", "b")
			o.edit(test.edit)
			o.write(s)
			equal(t, "fields of the other client", test.edit.Unapplied(o.content), patch.MergePatch{})
			equal(t, "framework's part", o.committer.Builder.SameFrameworkPart(o.content, object(sized(1)).Object), true)
		})
	}
}

// The JSON form of a Go type lacks empty annotations.
func TestBuild_KeepsAnnotationsOfTypedObject(t *testing.T) {
	b := newBuilder(custom{progress.Smart()}, progress.AnnotationBaseline(""))
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "w", Finalizers: []string{finalizer}, DeletionTimestamp: &metav1.Time{Time: now}}}
	for _, id := range b.HandlerIDs {
		if err := b.Store.Store(obj, id, waiting("delete")); err != nil {
			t.Fatal(err)
		}
	}
	content, err := patch.Content(obj)
	if err != nil {
		t.Fatal(err)
	}
	state, err := progress.Load(b.Store, obj, b.HandlerIDs)
	if err != nil {
		t.Fatal(err)
	}
	c := cause.Cause{Reason: cause.Delete, New: sized(1)}
	tx, err := b.Build(commit.Input{Object: obj, Content: content, Cause: &c, Progress: state, Finished: true, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "PATCH-07 framework's part", tx.Change.FrameworkPatch, patch.MergePatch{"metadata": m{"annotations": m{prefix + "a": nil, prefix + "b": nil}}})
}

// custom is a store of which nothing is known.
type custom struct{ recordStore }

// The part of an object from before the operator used a remote counts, and is removed after it is saved.
func TestRemote_MovesProgressOfObject(t *testing.T) {
	move := func(t *testing.T) (*operator, *remote, *commit.Session) {
		o, r := newRemoteOperator(t, store(t, defaults(), handled(1, sized(2)), map[string]progress.Record{"a": waiting("update")}))
		s := o.begin()
		equal(t, "reason", s.Cause.Reason, cause.Update)
		equal(t, "has a remote part", s.HasRemotePart(), false)
		return o, r, s
	}
	t.Run("PROG-09 the part is removed", func(t *testing.T) {
		o, r, s := move(t)
		o.write(s)
		equal(t, "requests", o.sent(), []string{"-a -last-handled-configuration"})
		equal(t, "saved annotations", r.annotations(t), set("+a", "+b", setBaseline, setPin))
		equal(t, "next old state", o.begin().Cause.Old, sized(1))
	})
	t.Run("PROG-09 the part cannot be removed: the next save repeats it", func(t *testing.T) {
		o, r, s := move(t)
		o.before = once(containing("-a", errUnavailable))
		o.write(s)
		equal(t, "requests", o.sent(), []string{"-a -last-handled-configuration"})
		equal(t, "next old state", o.begin().Cause.Old, sized(1))
		o.write(o.finish(s, "a", "b"))
		equal(t, "requests of the next save", o.sent(), []string{"-a -last-handled-configuration"})
		equal(t, "saved annotations", r.annotations(t), set(setBaseline))
	})
}

// Removing the framework's part from an object must not remove fields that another client has added since the object was read.
func TestRemote_KeepsFieldsOfOtherClients(t *testing.T) {
	inStatus := newBuilder(progress.Status(""), progress.StatusBaseline(""))
	const ours = "-a -last-handled-configuration"
	for _, test := range []struct {
		name    string
		builder *commit.Builder
		edit    patch.MergePatch
		want    string
	}{
		{"PATCH-07 annotations", defaults(), patch.MergePatch{"metadata": m{"annotations": m{"foreign": "x"}}}, ours},
		{"PATCH-05 no annotations of other clients", defaults(), nil, ours},
		{"PATCH-05 no status of other clients", inStatus, nil, "/status status.kopf"},
		{"PATCH-07 the status", inStatus, patch.MergePatch{"status": m{"foreign": "x"}}, "/status status.kopf"},
	} {
		t.Run(test.name, func(t *testing.T) {
			obj := store(t, test.builder, object(sized(2)), map[string]progress.Record{"a": waiting("update")})
			test.builder.Baseline.Store(obj, []byte(text(sized(1))))
			o := newOperator(t, test.builder, obj)
			o.committer.Remote = &remote{}
			s := o.begin()
			o.edit(test.edit)
			o.write(s)
			requests := o.sent()
			equal(t, "last request", requests[len(requests)-1], test.want)
			equal(t, "object", test.edit.Unapplied(o.content), patch.MergePatch{})
			equal(t, "framework's part", o.committer.Builder.SameFrameworkPart(o.content, object(sized(2)).Object), true)
			o.write(o.finish(s, "a", "b"))
			equal(t, "requests of the next save", o.sent(), []string{})
		})
	}
}
