package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// started has the precision of stored times.
var started = time.Date(2024, 2, 29, 23, 59, 59, 123456000, time.UTC)

// Records returns records in all states, by id. The ids include a long one, and those of a sub-handler and of a field handler.
func Records() map[string]progress.Record {
	return map[string]progress.Record{
		"create":           {Started: started, Purpose: "create"},
		"create/replica-0": {Started: started, Stopped: started.Add(time.Second), Purpose: "create", Retries: 1, Success: true},
		"grow/spec.size": {
			Started: started, Delayed: started.Add(time.Minute), Attempted: started.Add(time.Second), Purpose: "update", Retries: 3,
			Message: "quota \"exceeded\":\n<Größe> \U0001F4BE & more",
		},
		"delete": {Started: started, Stopped: started.Add(time.Hour), Purpose: "delete", Retries: 7, Failure: true, Message: "gone"},
		"parent": {Started: started, Delayed: started, Attempted: started, Purpose: "resume", Retries: 1, Subrefs: []string{"parent/a", "parent/b"}},
		"handler-with-a-long-name-" + strings.Repeat("x", 60): {Started: started, Purpose: "create", Retries: 2},
	}
}

// Store tests an implementation of [progress.Store]. newStore returns the store, which can be the same for each call. newObject returns an
// object without records and with a unique uid.
func Store(t *testing.T, newStore func() progress.Store, newObject func() client.Object) {
	t.Helper()
	run := func(name string, check func(*storeTest)) {
		t.Run(name, func(t *testing.T) {
			test := &storeTest{T: t, store: newStore(), obj: newObject()}
			if checker, ok := test.store.(progress.Checker); ok {
				if err := checker.Check(); err != nil {
					t.Fatalf("Check returns the error %v, want none", err)
				}
			}
			check(test)
		})
	}
	run("an object without records", func(t *storeTest) {
		for id := range Records() {
			t.expectNone(t.obj, id)
		}
	})
	for id, record := range Records() {
		run("the record of "+id[:min(len(id), 20)], func(t *storeTest) {
			t.save(t.obj, id, record)
			t.expect(t.obj, id, record)
		})
	}
	run("a new record replaces the earlier one", func(t *storeTest) {
		t.save(t.obj, "create", progress.Record{Started: started, Purpose: "create", Retries: 1, Message: "failed", Delayed: started, Attempted: started})
		t.save(t.obj, "create", progress.Record{Started: started, Purpose: "create", Retries: 2, Success: true, Stopped: started})
		t.expect(t.obj, "create", progress.Record{Started: started, Purpose: "create", Retries: 2, Success: true, Stopped: started})
	})
	run("records of several handlers are independent", func(t *storeTest) {
		for id, record := range Records() {
			t.save(t.obj, id, record)
		}
		t.purge(t.obj, "create")
		t.expectNone(t.obj, "create")
		for id, record := range Records() {
			if id != "create" {
				t.expect(t.obj, id, record)
			}
		}
	})
	run("records of several objects are independent", func(t *storeTest) {
		other := newObject()
		t.save(t.obj, "create", Records()["create"])
		t.expectNone(other, "create")
		t.save(other, "create", Records()["delete"])
		t.purge(other, "create")
		t.expect(t.obj, "create", Records()["create"])
	})
	run("purge without a record", func(t *storeTest) {
		before := t.content(t.obj)
		t.purge(t.obj, "create")
		if diff := cmp.Diff(before, t.content(t.obj)); diff != "" {
			t.Errorf("Purge without a record has changed the object (-before +after):\n%s", diff)
		}
	})
	run("purge removes all records", func(t *storeTest) {
		before := t.content(t.obj)
		for id, record := range Records() {
			t.save(t.obj, id, record)
		}
		for id := range Records() {
			t.purge(t.obj, id)
			t.expectNone(t.obj, id)
		}
		after := t.content(t.obj)
		t.store.Clear(after) // a marker that is not a record may remain
		if diff := cmp.Diff(before, withoutEmpty(after)); diff != "" {
			t.Errorf("after Purge, the object differs (-before +after):\n%s", diff)
		}
	})
	run("records survive the JSON form of the object", func(t *storeTest) {
		for id, record := range Records() {
			t.save(t.obj, id, record)
		}
		read := newObject()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(t.content(t.obj), read); err != nil {
			t.Fatal(err)
		}
		for id, record := range Records() {
			t.expect(read, id, record)
		}
	})
	run("shared maps are not modified", func(t *storeTest) {
		t.obj.SetAnnotations(map[string]string{"example.com/other": "x"})
		t.save(t.obj, "create", Records()["create"])
		shared, before := t.obj.GetAnnotations(), maps.Clone(t.obj.GetAnnotations())
		copied := t.obj.DeepCopyObject().(client.Object)
		copied.SetAnnotations(shared) // as in a shallow copy of a cached object
		t.save(copied, "create", Records()["delete"])
		t.save(copied, "delete", Records()["delete"])
		t.purge(copied, "create")
		if diff := cmp.Diff(before, shared); diff != "" {
			t.Errorf("the shared annotations differ (-before +after):\n%s", diff)
		}
	})
	run("clear removes the records from the essence", func(t *storeTest) {
		t.obj.SetAnnotations(map[string]string{"example.com/other": "x"})
		before := t.content(t.obj)
		t.store.Clear(before)
		for id, record := range Records() {
			t.save(t.obj, id, record)
		}
		after := t.content(t.obj)
		t.store.Clear(after)
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("the essence contains records (-before +after):\n%s", diff)
		}
	})
	run("only annotations", func(t *storeTest) {
		if !progress.UsesOnlyAnnotations(t.store, t.obj) {
			return // this test doesn't apply
		}
		meta := &metav1.PartialObjectMetadata{}
		meta.SetUID(t.obj.GetUID())
		meta.SetAnnotations(t.obj.GetAnnotations())
		t.save(meta, "create", Records()["create"])
		t.expect(meta, "create", Records()["create"])
		t.obj.SetAnnotations(meta.GetAnnotations())
		t.expect(t.obj, "create", Records()["create"])
	})
	run("concurrent use for several objects", func(t *storeTest) {
		var all sync.WaitGroup
		for range 8 {
			obj := newObject()
			all.Go(func() {
				for range 20 {
					t.save(obj, "create", Records()["create"])
					t.expect(obj, "create", Records()["create"])
					t.purge(obj, "create")
				}
			})
		}
		all.Wait()
	})
}

type storeTest struct {
	*testing.T
	store progress.Store
	obj   client.Object
}

func (t *storeTest) save(obj client.Object, id string, record progress.Record) {
	t.Helper()
	if err := t.store.Store(obj, id, record); err != nil {
		t.Errorf("Store of %q returns the error %v, want none", id, err)
	}
}

func (t *storeTest) purge(obj client.Object, id string) {
	t.Helper()
	if err := t.store.Purge(obj, id); err != nil {
		t.Errorf("Purge of %q returns the error %v, want none", id, err)
	}
}

func (t *storeTest) expect(obj client.Object, id string, want progress.Record) {
	t.Helper()
	record, err := t.store.Fetch(obj, id)
	if err != nil || record == nil {
		t.Errorf("Fetch of %q returns %v and the error %v, want a record", id, record, err)
		return
	}
	if record.Attempted.IsZero() {
		want.Attempted = time.Time{} // a store may omit it, as kopf does
	}
	if diff := cmp.Diff(want, *record); diff != "" {
		t.Errorf("the record of %q differs (-want +got):\n%s", id, diff)
	}
}

func (t *storeTest) expectNone(obj client.Object, id string) {
	t.Helper()
	if record, err := t.store.Fetch(obj, id); err != nil || record != nil {
		t.Errorf("Fetch of %q returns %+v and the error %v, want nothing", id, record, err)
	}
}

// content returns the JSON form of an object without empty maps, so that empty and missing maps are equal.
func (t *storeTest) content(obj client.Object) map[string]any {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	return withoutEmpty(content)
}

func withoutEmpty(content map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range content {
		if fields, ok := value.(map[string]any); ok {
			fields = withoutEmpty(fields)
			if len(fields) == 0 {
				continue
			}
			value = fields
		}
		if value != nil {
			out[key] = value
		}
	}
	return out
}

// Remote tests an implementation of [progress.Remote]. newObject returns a new object with a uid. If the remote needs an existing object,
// newObject must create it.
func Remote(t *testing.T, remote progress.Remote, newObject func(t *testing.T) client.Object) {
	t.Helper()
	run := func(name string, check func(*remoteTest)) {
		t.Run(name, func(t *testing.T) { check(&remoteTest{T: t, remote: remote, obj: newObject(t)}) })
	}
	run("nothing is stored", func(t *remoteTest) {
		t.expect(t.obj, nil, "")
		if _, err := remote.Save(t.Context(), t.obj, progress.Snapshot{}); err != nil {
			t.Errorf("Save of an empty snapshot returns the error %v, want none", err)
		}
	})
	run("save and load", func(t *remoteTest) {
		first := t.save(t.obj, one, "")
		t.expect(t.obj, one, first)
		second := t.save(t.obj, two, first)
		if second == first {
			t.Errorf("the version is still %q after the data changed, want a different one", second)
		}
		t.expect(t.obj, two, second)
	})
	run("a large document", func(t *remoteTest) {
		data := fmt.Appendf(nil, `{"message":"%s"}`, strings.Repeat(`\u00e4\"<&>`, 20_000))
		t.expect(t.obj, data, t.save(t.obj, data, ""))
	})
	run("delete", func(t *remoteTest) {
		version := t.save(t.obj, one, "")
		t.save(t.obj, nil, version)
		t.expect(t.obj, nil, "")
		t.expect(t.obj, two, t.save(t.obj, two, ""))
	})
	run("conflicts", func(t *remoteTest) {
		first := t.save(t.obj, one, "")
		t.expectConflict(t.obj, two, "")
		second := t.save(t.obj, two, first)
		t.expectConflict(t.obj, one, first)
		t.expectConflict(t.obj, nil, first)
		t.expect(t.obj, two, second)
		t.save(t.obj, nil, second)
		t.expectConflict(t.obj, one, second)
		t.expect(t.obj, nil, "")
	})
	run("concurrent requests with the same version", func(t *remoteTest) {
		version := t.save(t.obj, one, "")
		var all sync.WaitGroup
		saved := make(chan []byte, 8)
		for i := range cap(saved) {
			data := fmt.Appendf(nil, `{"writer":%d}`, i)
			all.Go(func() {
				switch _, err := remote.Save(t.Context(), t.obj, progress.Snapshot{Data: data, Version: version}); {
				case err == nil:
					saved <- data
				case !errors.Is(err, progress.ErrConflict):
					t.Errorf("Save returns the error %v, want success or ErrConflict", err)
				}
			})
		}
		if all.Wait(); len(saved) != 1 {
			t.Fatalf("%d concurrent requests have succeeded, want 1", len(saved))
		}
		if snapshot := t.load(t.obj); !bytes.Equal(snapshot.Data, <-saved) {
			t.Errorf("the data is %s, want the data of the successful request", snapshot.Data)
		}
	})
	run("objects are independent", func(t *remoteTest) {
		other, recreated := newObject(t.T), t.obj.DeepCopyObject().(client.Object)
		recreated.SetUID(types.UID("other-" + string(t.obj.GetUID())))
		version := t.save(t.obj, one, "")
		t.expect(other, nil, "")
		t.expect(recreated, nil, "")
		t.save(other, nil, t.save(other, two, ""))
		t.expect(t.obj, one, version)
	})
	run("a cancelled context", func(t *remoteTest) {
		version := t.save(t.obj, one, "")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := remote.Load(ctx, t.obj); err == nil {
			t.Error("Load with a cancelled context returns no error, want one")
		}
		if _, err := remote.Save(ctx, t.obj, progress.Snapshot{Data: two, Version: version}); err == nil {
			t.Error("Save with a cancelled context returns no error, want one")
		}
		t.expect(t.obj, one, version)
	})
}

var one, two = []byte(`{"one":1}`), []byte(`{"two":[2,"zwei"]}`)

type remoteTest struct {
	*testing.T
	remote progress.Remote
	obj    client.Object
}

func (t *remoteTest) load(obj client.Object) progress.Snapshot {
	t.Helper()
	snapshot, err := t.remote.Load(t.Context(), obj)
	if err != nil {
		t.Fatalf("Load returns an error: %v", err)
	}
	return snapshot
}

func (t *remoteTest) expect(obj client.Object, data []byte, version string) {
	t.Helper()
	if snapshot := t.load(obj); !bytes.Equal(snapshot.Data, data) || snapshot.Version != version {
		t.Errorf("Load returns %.100s with the version %q, want %.100s with the version %q", snapshot.Data, snapshot.Version, data, version)
	}
}

func (t *remoteTest) save(obj client.Object, data []byte, version string) string {
	t.Helper()
	saved, err := t.remote.Save(t.Context(), obj, progress.Snapshot{Data: data, Version: version})
	if err != nil {
		t.Fatalf("Save of %.100s with the version %q returns an error: %v", data, version, err)
	}
	if (saved == "") != (len(data) == 0) {
		t.Fatalf("Save of %.100s returns the version %q; want an empty version after a deletion, and a non-empty one otherwise", data, saved)
	}
	return saved
}

func (t *remoteTest) expectConflict(obj client.Object, data []byte, version string) {
	t.Helper()
	if _, err := t.remote.Save(t.Context(), obj, progress.Snapshot{Data: data, Version: version}); !errors.Is(err, progress.ErrConflict) {
		t.Errorf("Save of %.100s with the obsolete version %q returns %v, want ErrConflict", data, version, err)
	}
}
