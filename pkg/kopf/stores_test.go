package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func TestStoreIn_Memory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
		var calls []string
		failing := true
		handle := func(_ context.Context, req *kopf.Request[configMap]) error {
			calls = append(calls, fmt.Sprintf("%s %d", req.Handler, req.Attempt.Number))
			if failing && req.Handler != "stored/sub" && req.Handler != "memory/sub" {
				return kopf.Temporary(errors.New("not yet"), time.Second)
			}
			return nil
		}
		withSub := func(ctx context.Context, req *kopf.Request[configMap]) error {
			req.Sub("sub", handle)
			return handle(ctx, req)
		}
		start := func() *kopftest.Operator {
			calls = nil
			return cluster.Run(t, kopf.For(&corev1.ConfigMap{}).
				OnCreate("stored", withSub).
				OnCreate("memory", withSub, kopf.StoreIn(progress.InMemory())))
		}
		operator := start()
		<-time.After(1500 * time.Millisecond) // virtual time: 2 attempts
		operator.Stop(t)
		obj := newConfigMap("one")
		cluster.Get(t, obj)
		for key := range obj.Annotations {
			if strings.Contains(key, "memory") {
				t.Errorf("annotation %s, want no records of the handler in memory", key)
			}
		}
		if _, found := obj.Annotations[progress.DefaultPrefix+"/stored"]; !found {
			t.Errorf("annotations = %q, want the record of the other handler", slices.Sorted(maps.Keys(obj.Annotations)))
		}
		failing = false
		operator = start()
		operator.RunUntilQuiet(t)
		want := []string{"memory 0", "memory/sub 0", "stored 2", "stored/sub 0"}
		if slices.Sort(calls); !slices.Equal(calls, want) {
			t.Errorf("calls after the restart = %q, want %q", calls, want)
		}
	})
}

func TestStoreIn_OneCallForEachCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
		var calls []string
		handle := func(_ context.Context, req *kopf.Request[configMap]) error {
			calls = append(calls, string(req.Reason))
			return nil
		}
		reasons := []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate, kopf.ReasonDelete}
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).On("all", reasons, handle, kopf.StoreIn(progress.InMemory())))
		operator.RunUntilQuiet(t)
		for i := range 3 {
			kopftest.Edit(t, cluster, newConfigMap("one"), func(obj configMap) { obj.Data = map[string]string{"key": fmt.Sprint(i)} })
			operator.RunUntilQuiet(t)
		}
		cluster.Delete(t, newConfigMap("one"))
		operator.RunUntilQuiet(t)
		if want := []string{"create", "update", "update", "update", "delete"}; !slices.Equal(calls, want) {
			t.Errorf("calls = %q, want %q", calls, want)
		}
	})
}

func TestStoreIn_ReportsMistakes(t *testing.T) {
	cluster := kopftest.Memory(t)
	handle := func(context.Context, *kopf.Request[configMap]) error { return nil }
	resource := func() *kopf.Resource[configMap] { return kopf.For(&corev1.ConfigMap{}) }
	for want, declared := range map[string]*kopf.Resource[configMap]{
		"StoreIn(nil)":                 resource().OnCreate("a", handle, kopf.StoreIn(nil)),
		"contains another WithHistory": resource().OnCreate("a", handle, kopf.StoreIn(progress.WithHistory(progress.WithHistory(progress.Smart(), 1), 1))),
		"WithHistory(0)":               resource().OnCreate("a", handle, kopf.StoreIn(progress.WithHistory(progress.Smart(), 0))),
		"the Go type":                  resource().OnCreate("a", handle, kopf.StoreIn(progress.Status(""))),
		"StoreIn has no effect":        resource().OnReconcile("a", handle, kopf.StoreIn(progress.InMemory())),
	} {
		mgr, err := manager.New(cluster.Config, manager.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := kopf.SetupWithManager(mgr, declared); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
}

func TestWithHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
		handle := func(_ context.Context, req *kopf.Request[configMap]) error {
			if req.Handler == "b" && req.Attempt.Number < 1 {
				return kopf.Temporary(errors.New("not yet"), time.Second)
			}
			if req.Handler == "b" && req.Reason == kopf.ReasonUpdate {
				return kopf.Permanent(errors.New(strings.Repeat("x", 1000)))
			}
			return nil
		}
		reasons := []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}
		operator := cluster.Run(t, kopf.WithProgress(progress.WithHistory(progress.Smart(), 3)),
			kopf.For(&corev1.ConfigMap{}).On("a", reasons, handle).On("b", reasons, handle))
		operator.RunUntilQuiet(t)
		history := func() (short []string) {
			t.Helper()
			obj := newConfigMap("one")
			cluster.Get(t, obj)
			entries, err := progress.History(obj)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				short = append(short, fmt.Sprintf("%s %s success=%t attempts=%d message=%d", e.Purpose, e.Handler, e.Success, e.Retries, len(e.Message)))
			}
			return short
		}
		want := []string{"create a success=true attempts=1 message=0", "create b success=true attempts=2 message=0"}
		if got := history(); !slices.Equal(got, want) {
			t.Errorf("history = %q, want %q", got, want)
		}
		kopftest.Edit(t, cluster, newConfigMap("one"), func(obj configMap) { obj.Data = map[string]string{"key": "changed"} })
		operator.RunUntilQuiet(t)
		want = append(want[1:], "update a success=true attempts=1 message=0", "update b success=false attempts=2 message=259")
		if got := history(); !slices.Equal(got, want) {
			t.Errorf("history = %q, want %q", got, want)
		}
		if calls := operator.Calls(); len(calls) != 6 {
			t.Errorf("calls = %v, want 6: the history is no update", calls)
		}
	})
}

func TestHistory_Unreadable(t *testing.T) {
	obj := newConfigMap("one")
	if entries, err := progress.History(obj); entries != nil || err != nil {
		t.Errorf("history = %v and error = %v, want neither", entries, err)
	}
	for _, text := range []string{"{", "{}", "[1]", "[null]"} {
		obj.Annotations = map[string]string{progress.HistoryAnnotation: text}
		if _, err := progress.History(obj); err == nil || !strings.Contains(err.Error(), progress.HistoryAnnotation) {
			t.Errorf("error for %q = %v, want one with the name of the annotation", text, err)
		}
		store := progress.WithHistory(progress.Smart(), 2).(progress.Archiver)
		if err := store.Archive(obj, "a", progress.Record{Purpose: "create", Success: true}); err != nil {
			t.Errorf("Archive after an unreadable history = %v, want nil", err)
		}
		if entries, err := progress.History(obj); err != nil || len(entries) != 1 {
			t.Errorf("history after %q = %v and error = %v, want one entry", text, entries, err)
		}
	}
}
