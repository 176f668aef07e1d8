package kopftest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

type cmRequest = kopf.Request[*corev1.ConfigMap]

var count = kopf.NewMemo[int]("count")

// useAllMethods uses all methods of its request.
func useAllMethods(ctx context.Context, req *cmRequest) error {
	n, _ := count.Load(ctx)
	count.Store(ctx, n+1)
	req.Object.Data["seen"] = string(req.Reason)
	req.Eventf("Normal", "Seen", "See", "it is %s", req.Object.Data["color"])
	req.SetResult(map[string]int{"attempt": req.Attempt.Number})
	req.Sub("one", func(_ context.Context, req *cmRequest) error {
		req.Object.Data["one"] = req.Handler
		return kopf.Temporary(errors.New("busy"), time.Second)
	})
	child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: req.Object.Namespace, Name: req.Object.Name}}
	return req.Client.Create(ctx, child)
}

func configMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders"}, Data: data}
}

func TestInvoke_ReturnsAllResults(t *testing.T) {
	g, ctx := NewWithT(t), kopftest.Context(t)
	obj := configMap(map[string]string{"color": "red"})
	got := kopftest.Invoke(t, useAllMethods, obj, kopftest.WithContext(ctx),
		kopftest.WithOldObject(configMap(map[string]string{"color": "blue"})), kopftest.WithAttempt(progress.Attempt{Number: 2}))

	g.Expect(got.Outcome.Success).To(BeTrue())
	g.Expect(obj.Data).NotTo(HaveKey("seen"), "want no change of the input object")
	g.Expect(got.Object.Data).To(HaveKeyWithValue("seen", "update"))
	g.Expect(got.Changes).To(Equal(diff.Diff{{Op: diff.Add, Path: diff.Path{"data", "seen"}, New: "update"}}))
	g.Expect(got.Events).To(Equal([]kopftest.Event{{Type: "Normal", Reason: "Seen", Action: "See", Note: "it is red"}}))
	g.Expect(got.Result).To(Equal(map[string]any{"attempt": int64(2)}))
	g.Expect(got.Writes).To(HaveLen(1))
	g.Expect(got.Writes[0].String()).To(Equal("create secrets/orders"))
	n, _ := count.Load(ctx)
	g.Expect(n).To(Equal(1))

	g.Expect(got.SubHandlers).To(Equal([]string{"one"}))
	sub := got.InvokeSubHandler(t, "one")
	g.Expect(sub.Object.Data).To(And(HaveKeyWithValue("one", "handler/one"), HaveKeyWithValue("seen", "update")))
	g.Expect(sub.Outcome.Delay).To(Equal(time.Second))
}

func TestInvoke_PassesTheCause(t *testing.T) {
	changed := func(what *cmRequest) func(context.Context, *cmRequest) error {
		return func(_ context.Context, req *cmRequest) error {
			*what = *req
			old, now := req.Field()
			req.SetResult([]any{old, now})
			return nil
		}
	}
	red, blue := configMap(map[string]string{"color": "red", "x": "1"}), configMap(map[string]string{"color": "blue"})
	for name, test := range map[string]struct {
		opts   []kopftest.InvokeOption
		reason kopf.Reason
		ops    []diff.Op
		field  any
	}{
		"creation":    {nil, "create", []diff.Op{diff.Add}, []any{nil, nil}},
		"update":      {[]kopftest.InvokeOption{kopftest.WithOldObject(blue)}, "update", []diff.Op{diff.Change, diff.Add}, []any{nil, nil}},
		"field":       {[]kopftest.InvokeOption{kopftest.WithOldObject(blue), kopftest.WithField("data.color")}, "update", []diff.Op{diff.Change}, []any{"blue", "red"}},
		"field of it": {[]kopftest.InvokeOption{kopftest.WithField("data.x")}, "create", []diff.Op{diff.Add}, []any{nil, "1"}},
		"deletion":    {[]kopftest.InvokeOption{kopftest.WithOldObject(red), kopftest.WithReason(kopf.ReasonDelete)}, "delete", nil, []any{nil, nil}},
		"event":       {[]kopftest.InvokeOption{kopftest.WithEventType(watch.Modified)}, "event", nil, []any{nil, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var seen cmRequest
			got := kopftest.Invoke(t, changed(&seen), red, test.opts...)
			g.Expect(seen.Reason).To(Equal(test.reason))
			var ops []diff.Op
			for _, item := range seen.Diff {
				ops = append(ops, item.Op)
			}
			g.Expect(ops).To(ConsistOf(test.ops))
			g.Expect(got.Result).To(Equal(test.field))
		})
	}
}

func TestInvoke_AppliesThePolicy(t *testing.T) {
	fails := func(err error) kopf.Handler[*corev1.ConfigMap] {
		return func(context.Context, *cmRequest) error { return err }
	}
	boom := errors.New("boom")
	for name, test := range map[string]struct {
		handler kopf.Handler[*corev1.ConfigMap]
		opts    []kopftest.InvokeOption
		final   bool
		delay   time.Duration
	}{
		"unknown":   {fails(boom), nil, false, time.Minute},
		"permanent": {fails(kopf.Permanent(boom)), nil, true, 0},
		"limits": {fails(boom), []kopftest.InvokeOption{
			kopftest.WithPolicy(progress.Policy{Retries: new(3)}), kopftest.WithAttempt(progress.Attempt{Number: 2}),
		}, true, 0},
		"panic": {func(context.Context, *cmRequest) error { panic("boom") }, nil, false, time.Minute},
		"an invalid result": {func(_ context.Context, req *cmRequest) error {
			req.SetResult(func() {})
			return nil
		}, nil, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got := kopftest.Invoke(t, test.handler, configMap(nil), test.opts...)
			g.Expect(got.Outcome.Err).To(HaveOccurred())
			g.Expect(got.Outcome.Success).To(BeFalse())
			g.Expect(got.Outcome.Final).To(Equal(test.final))
			g.Expect(got.Outcome.Delay).To(Equal(test.delay))
		})
	}
}

func TestInvoke_ConditionsAndFlushes(t *testing.T) {
	g := NewWithT(t)
	deployment := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "orders"}}
	got := kopftest.Invoke(t, func(ctx context.Context, req *kopf.Request[*corev1.Pod]) error {
		req.Object.Status.Message = "starting"
		if err := req.Flush(ctx); err != nil {
			return err
		}
		var found corev1.Pod
		if err := req.Client.Get(ctx, client.ObjectKeyFromObject(req.Object), &found); err != nil {
			return err // the client's cluster must contain the object
		}
		req.Object.Status.Message = "started"
		return nil
	}, deployment)
	g.Expect(got.Outcome.Err).NotTo(HaveOccurred())
	g.Expect(got.Flushed).To(HaveLen(1))
	g.Expect(got.Flushed[0].Status.Message).To(Equal("starting"))
	g.Expect(got.Object.Status.Message).To(Equal("started"))
	g.Expect(got.Condition("Ready").Status).To(BeEmpty())
}

func TestWithField_KeyWithADot(t *testing.T) {
	labeled := func(value string) *corev1.ConfigMap {
		obj := configMap(nil)
		obj.Labels = map[string]string{"example.com/size": value}
		return obj
	}
	got := kopftest.Invoke(t, func(_ context.Context, req *cmRequest) error {
		old, now := req.Field()
		req.SetResult([]any{old, now})
		return nil
	}, labeled("2"), kopftest.WithOldObject(labeled("1")), kopftest.WithField(`metadata.labels.example\.com/size`))
	NewWithT(t).Expect(got.Result).To(Equal([]any{"1", "2"}))
}

// A handler may replace req.Object with a copy of the same object, but not with another object.
func TestInvoke_ComparesAnotherCopyOfTheObject(t *testing.T) {
	g := NewWithT(t)
	replace := func(name string) kopf.Handler[*corev1.ConfigMap] {
		return func(_ context.Context, req *cmRequest) error {
			req.Object = req.Object.DeepCopy()
			req.Object.Name = name
			req.Object.Data = map[string]string{"painted": "yes"}
			return nil
		}
	}
	g.Expect(kopftest.Invoke(t, replace("orders"), configMap(nil)).Object.Data).To(HaveKey("painted"))
	g.Expect(kopftest.Invoke(t, replace("another"), configMap(nil)).Changes).To(BeEmpty())
	for name, painted := range map[string]string{"orders": "yes", "another": ""} {
		report := kopftest.Cycle(t, kopftest.Given{Objects: []client.Object{configMap(nil)}}, kopf.For(&corev1.ConfigMap{}).OnCreate("replace", replace(name)))
		obj := configMap(nil)
		g.Expect(report.Get(t, obj)).To(BeTrue())
		g.Expect(obj.Data["painted"]).To(Equal(painted), "want the changes of the copy")
	}
}

// Sub-handlers have their own fields and sub-handlers.
func TestInvokeSubHandler(t *testing.T) {
	g := NewWithT(t)
	field := func(_ context.Context, req *cmRequest) error {
		old, now := req.Field()
		req.SetResult([]any{old, now})
		return nil
	}
	got := kopftest.Invoke(t, func(_ context.Context, req *cmRequest) error {
		req.Sub("color", field, kopf.Field("data.color", filter.From("blue")))
		req.Sub("plain", func(_ context.Context, req *cmRequest) error {
			req.Sub("deep", field)
			req.SetResult(len(req.Diff))
			return nil
		})
		return nil
	}, configMap(map[string]string{"color": "red", "size": "2"}),
		kopftest.WithOldObject(configMap(map[string]string{"color": "blue", "size": "1"})), kopftest.WithField("data.size"))
	g.Expect(got.Outcome.Err).NotTo(HaveOccurred())
	g.Expect(got.InvokeSubHandler(t, "color").Result).To(Equal([]any{"blue", "red"}))
	plain := got.InvokeSubHandler(t, "plain")
	g.Expect(plain.Result).To(Equal(int64(1)), "want the diff of the parent's field")
	g.Expect(plain.SubHandlers).To(Equal([]string{"deep"}))
	g.Expect(plain.InvokeSubHandler(t, "deep").Result).To(Equal([]any{"1", "2"}))
}

func TestWithFinishedSubHandlers(t *testing.T) {
	g := NewWithT(t)
	handler := func(_ context.Context, req *cmRequest) error {
		req.Sub("a", func(_ context.Context, req *cmRequest) error {
			req.Sub("deep", func(context.Context, *cmRequest) error { return nil })
			req.SetResult(req.AwaitSubs())
			return nil
		})
		first := req.AwaitSubs()
		req.Sub("deep", func(context.Context, *cmRequest) error { return nil })
		req.SetResult([]any{first, req.AwaitSubs()})
		return nil
	}
	for _, test := range []struct {
		finished    []string
		result, sub any
	}{
		{nil, []any{false, false}, false},
		{[]string{"a"}, []any{true, false}, false},
		{[]string{"a", "deep"}, []any{true, true}, false},
		{[]string{"a/deep"}, []any{false, false}, true},
	} {
		got := kopftest.Invoke(t, handler, configMap(nil), kopftest.WithFinishedSubHandlers(test.finished...))
		g.Expect(got.Result).To(Equal(test.result), "finished: %q", test.finished)
		g.Expect(got.InvokeSubHandler(t, "a").Result).To(Equal(test.sub), "finished: %q", test.finished)
	}
}

func TestInvoke_Reconciler(t *testing.T) {
	g := NewWithT(t)
	again := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{RequeueAfter: time.Hour}, nil
	})
	got := kopftest.Invoke(t, kopf.FromReconciler[*corev1.ConfigMap](again), configMap(nil), kopftest.WithReason(kopf.ReasonReconcile))
	g.Expect(got.Outcome.Success).To(BeTrue())
	g.Expect(got.RequeueAfter).To(Equal(time.Hour))
}

// Objects without Go types need no types in the scheme.
func TestInvoke_UnstructuredObjects(t *testing.T) {
	g := NewWithT(t)
	db := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Database", "metadata": map[string]any{"name": "orders", "namespace": "default"},
	}}
	got := kopftest.Invoke(t, func(_ context.Context, req *kopf.Request[*unstructured.Unstructured]) error {
		return unstructured.SetNestedField(req.Object.Object, int64(3), "spec", "size")
	}, db)
	g.Expect(got.Outcome.Err).NotTo(HaveOccurred())
	g.Expect(got.Changes).To(HaveLen(1))

	only := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "orders"}}
	only.SetGroupVersionKind(db.GroupVersionKind())
	met := kopftest.Invoke(t, func(_ context.Context, req *kopf.Request[*metav1.PartialObjectMetadata]) error {
		req.Object.Labels = map[string]string{"a": "b"}
		return nil
	}, only)
	g.Expect(met.Outcome.Err).NotTo(HaveOccurred())
	g.Expect(met.Changes).To(HaveLen(1))
}

// Invoke creates the object in the client's cluster, so that handlers can update it and add children.
func TestInvoke_ObjectExistsInTheCluster(t *testing.T) {
	g := NewWithT(t)
	obj := configMap(map[string]string{"color": "red"})
	got := kopftest.Invoke(t, func(ctx context.Context, req *cmRequest) error {
		child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: req.Object.Namespace, Name: "child"}}
		if err := req.Adopt(child); err != nil {
			return err
		}
		if err := req.Client.Create(ctx, child); err != nil {
			return err
		}
		mine := req.Object.DeepCopy()
		mine.Data["color"] = "blue"
		return req.Client.Update(ctx, mine)
	}, obj)
	g.Expect(got.Outcome.Err).NotTo(HaveOccurred())
	g.Expect(got.Changes).To(BeEmpty())
	g.Expect(got.Object.UID).NotTo(BeEmpty())
	g.Expect(got.Writes[1].Body).To(HaveKeyWithValue("metadata", HaveKeyWithValue("resourceVersion", got.Object.ResourceVersion)))
	g.Expect(obj.UID).To(BeEmpty(), "want no change of the input object")

	own := configMap(nil)
	own.UID = "mine"
	kept := kopftest.Invoke(t, nothing, own)
	g.Expect(kept.Object.UID).To(BeEquivalentTo("mine"))
	kinds := runtime.NewScheme()
	kinds.AddKnownTypes(schema.GroupVersion{Group: "example.com", Version: "v1"}, &corev1.ConfigMap{}, &corev1.ConfigMapList{})
	metav1.AddToGroupVersion(kinds, schema.GroupVersion{Group: "example.com", Version: "v1"})
	custom := kopftest.Invoke(t, func(ctx context.Context, req *cmRequest) error {
		return req.Client.Update(ctx, req.Object)
	}, configMap(nil), kopftest.WithScheme(kinds))
	g.Expect(custom.Outcome.Err).NotTo(HaveOccurred(), "want a successful update with the resource version")
}

// Invoke logs the hint even if the handler wraps the error.
func TestInvoke_SchemeLacksAGoType(t *testing.T) {
	l := &logged{TB: t}
	kopftest.Invoke(l, func(ctx context.Context, req *cmRequest) error {
		return fmt.Errorf("reading it: %w, %w", errors.New("boom"), req.Client.Get(ctx, client.ObjectKeyFromObject(req.Object), &unknown{}))
	}, configMap(nil))
	NewWithT(t).Expect(l.text).To(ContainSubstring("set a scheme with WithScheme"))
}

// unknown is a Go type that no scheme contains.
type unknown struct{ corev1.ConfigMap }

func (u *unknown) DeepCopyObject() runtime.Object { return &unknown{*u.DeepCopy()} }

// logged is a testing.TB that records its log.
type logged struct {
	testing.TB
	text string
}

func (l *logged) Logf(format string, args ...any) { l.text += fmt.Sprintf(format, args...) }
