package decoding_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/decoding"
)

var version = schema.GroupVersion{Group: "shop.example.com", Version: "v1"}

// A box is a kind whose schema is looser than its Go type.
type box struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              boxSpec `json:"spec"`
}

type boxSpec struct {
	Size int `json:"size"`
}

func (b *box) DeepCopyObject() runtime.Object {
	copied := *b
	b.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	return &copied
}

type boxList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []box `json:"items"`
}

func (l *boxList) DeepCopyObject() runtime.Object {
	copied := *l
	copied.Items = slices.Clone(l.Items)
	return &copied
}

// A reel is a box whose Go type panics for the tape "torn".
type reel struct {
	box  `json:",inline"`
	Tape []*tape `json:"tape,omitempty"`
}

type tape string

func (t *tape) UnmarshalJSON(data []byte) error {
	if string(data) == `"torn"` {
		panic("the tape is torn")
	}
	return json.Unmarshal(data, (*string)(t))
}

func (r *reel) DeepCopyObject() runtime.Object {
	copied := *r
	r.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	return &copied
}

type reelList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []reel `json:"items"`
}

func (l *reelList) DeepCopyObject() runtime.Object {
	copied := *l
	copied.Items = slices.Clone(l.Items)
	return &copied
}

// world is an API server in memory with a cache of boxes. The server does not check the fields of boxes.
type world struct {
	*testing.T
	users client.Client
	*decoding.Cache
	requests requests
	mu       sync.Mutex
	events   []string
}

// requests counts the requests of the cache.
type requests struct {
	next            http.RoundTripper
	paged           bool // lists have one item for each page
	count, filtered atomic.Int64
}

func (r *requests) RoundTrip(request *http.Request) (*http.Response, error) {
	r.count.Add(1)
	if decoding.IsFiltered(request.Context()) {
		r.filtered.Add(1)
	}
	query := request.URL.Query()
	if r.paged && query.Get("sendInitialEvents") == "true" { // informers list pages only without a streaming list
		return &http.Response{StatusCode: http.StatusNotFound, Request: request, Body: http.NoBody}, nil
	}
	response, err := r.next.RoundTrip(request)
	if err != nil || !r.paged || query.Get("watch") != "" {
		return response, err
	}
	return r.page(response, query.Get("continue"))
}

// page reduces a list to one item.
func (r *requests) page(response *http.Response, token string) (*http.Response, error) {
	var list unstructured.UnstructuredList
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if err := list.UnmarshalJSON(data); err != nil {
		return nil, err
	}
	n, _ := strconv.Atoi(token) // 0 without a token
	if n+1 < len(list.Items) {
		list.SetContinue(strconv.Itoa(n + 1))
	}
	list.Items = list.Items[n:min(n+1, len(list.Items))]
	if data, err = list.MarshalJSON(); err != nil {
		return nil, err
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	return response, nil
}

// inWorld starts a cache with some boxes, such as "good: 1". The value is the JSON of the size, or of fields of the object.
func inWorld(t *testing.T, boxes map[string]string, act func(*world)) {
	inWorldOf(t, &box{}, &boxList{}, boxes, false, act)
}

func inWorldOf(t *testing.T, obj client.Object, list runtime.Object, boxes map[string]string, paged bool, act func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		scheme.AddKnownTypeWithName(version.WithKind("Box"), obj)
		scheme.AddKnownTypeWithName(version.WithKind("BoxList"), list)
		metav1.AddToGroupVersion(scheme, version)
		server := apiserver.New(apiserver.Resource{GroupVersion: version, Kind: "Box", Plural: "boxes"})
		mapper := meta.NewDefaultRESTMapper(nil)
		mapper.AddSpecific(version.WithKind("Box"), version.WithResource("boxes"), version.WithResource("box"), meta.RESTScopeNamespace)
		config := &rest.Config{Host: "http://in-memory", Transport: server, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}, QPS: -1}
		w := &world{T: t, requests: requests{next: server, paged: paged}}
		var err error
		if w.users, err = client.New(config, client.Options{Scheme: scheme, Mapper: mapper}); err != nil {
			t.Fatal(err)
		}
		for name, size := range boxes {
			w.create(name, size)
		}
		w.Cache, err = decoding.New(config, cache.Options{Scheme: scheme, Mapper: mapper, HTTPClient: &http.Client{Transport: &w.requests}})
		if err != nil {
			t.Fatal(err)
		}
		informer, err := w.GetInformer(t.Context(), obj, cache.BlockUntilSynced(false))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := informer.AddEventHandler(w); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Start(ctx) }()
		if !w.WaitForCacheSync(ctx) {
			t.Fatal("the cache has not synced")
		}
		synctest.Wait()
		act(w)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		w.wantFaults()
	})
}

func (w *world) newBox(name, spec string) *unstructured.Unstructured {
	w.Helper()
	obj := &unstructured.Unstructured{}
	if !strings.HasPrefix(spec, `"spec":`) {
		spec = `"spec":{"size":` + spec + `}`
	}
	content := fmt.Sprintf(`{"apiVersion":"shop.example.com/v1","kind":"Box","metadata":{"namespace":"shop","name":%q},%s}`, name, spec)
	if err := obj.UnmarshalJSON([]byte(content)); err != nil {
		w.Fatal(err)
	}
	return obj
}

func (w *world) create(name, spec string) {
	w.Helper()
	w.must(w.users.Create(w.Context(), w.newBox(name, spec)))
}

func (w *world) edit(name, spec string) {
	w.Helper()
	patch, err := json.Marshal(map[string]any{"spec": w.newBox(name, spec).Object["spec"]})
	w.must(err)
	w.must(w.users.Patch(w.Context(), w.newBox(name, spec), client.RawPatch("application/merge-patch+json", patch)))
}

func (w *world) delete(name string) {
	w.Helper()
	w.must(w.users.Delete(w.Context(), w.newBox(name, "1")))
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// wait waits until the informer has delivered everything, also after a relist with its backoff.
func (w *world) wait() {
	<-time.After(time.Minute)
	synctest.Wait()
}

func (w *world) add(event string, obj any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		event, obj = "missed "+event, unknown.Obj
	}
	one, ok := obj.(*box)
	if !ok {
		one = &obj.(*reel).box
	}
	w.events = append(w.events, fmt.Sprintf("%s %s %d", event, one.Name, one.Spec.Size))
}

func (w *world) OnAdd(obj any, _ bool) { w.add("added", obj) }
func (w *world) OnUpdate(oldObj, newObj any) {
	if oldObj.(client.Object).GetResourceVersion() != newObj.(client.Object).GetResourceVersion() { // it is equal if the objects were listed again
		w.add("updated", newObj)
	}
}
func (w *world) OnDelete(obj any) { w.add("deleted", obj) }

// wantEvents compares and forgets the events so far, independent of their order.
func (w *world) wantEvents(want ...string) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.events)
	slices.Sort(want)
	if !slices.Equal(w.events, want) {
		w.Errorf("events = %q, want %q", w.events, want)
	}
	w.events = nil
}

// wantFaults compares the names and fields of the faults.
func (w *world) wantFaults(want ...string) {
	w.Helper()
	var got []string
	all, _ := w.Faults().All()
	for _, obj := range all {
		got = append(got, obj.Key.Name+" "+obj.Fault.Field)
	}
	if !slices.Equal(got, want) {
		w.Errorf("faults = %q, want %q", got, want)
	}
}

func TestCache_ListsTheOtherObjects(t *testing.T) {
	inWorld(t, map[string]string{"a": "1", "bad": "1.5", "c": "3", "worse": `"none"`}, func(w *world) {
		w.wantEvents("added a 1", "added c 3")
		w.wantFaults("bad spec.size", "worse spec.size")
		var list boxList
		w.must(w.List(w.Context(), &list))
		if len(list.Items) != 2 {
			w.Errorf("the cache has %d boxes, want 2", len(list.Items))
		}
		err := w.Get(w.Context(), client.ObjectKey{Namespace: "shop", Name: "bad"}, &box{})
		if err == nil || apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "Box shop/bad: spec.size: json: cannot unmarshal number 1.5") {
			w.Errorf("Get of the faulty box: %v, want an error that names the field", err)
		}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: "shop", Name: "none"}, &box{}); !apierrors.IsNotFound(err) {
			w.Errorf("Get of a box that does not exist: %v, want NotFound", err)
		}
		w.edit("a", "10")
		w.create("d", "4")
		w.delete("c")
		w.wait()
		w.wantEvents("updated a 10", "added d 4", "deleted c 3")
		w.wantFaults("bad spec.size", "worse spec.size")
	})
}

func TestCache_ListsPages(t *testing.T) {
	inWorldOf(t, &box{}, &boxList{}, map[string]string{"a": "1", "bad": "1.5", "c": "3", "worse": "2.5", "z": "26"}, true, func(w *world) {
		w.wantEvents("added a 1", "added c 3", "added z 26")
		w.wantFaults("bad spec.size", "worse spec.size")
		w.edit("a", "1.5") // the objects are listed again
		w.edit("bad", "2")
		w.wait()
		w.wantEvents("missed deleted a 1", "added bad 2")
		w.wantFaults("a spec.size", "worse spec.size")
	})
}

func TestCache_FaultyObjectAppears(t *testing.T) {
	inWorld(t, map[string]string{"a": "1"}, func(w *world) {
		w.wantEvents("added a 1")
		w.create("bad", "1.5")
		w.create("b", "2")
		w.wait()
		w.wantEvents("added b 2")
		w.wantFaults("bad spec.size")
		w.create("worse", "2.5") // the watch is filtered now
		w.edit("bad", "3.5")
		w.create("c", "3")
		w.wait()
		w.wantEvents("added c 3")
		w.wantFaults("bad spec.size", "worse spec.size")
		if obj, _ := w.Faults().Find(schema.GroupKind{Group: version.Group, Kind: "Box"}, client.ObjectKey{Namespace: "shop", Name: "bad"}); !strings.Contains(obj.Error(), "3.5") {
			w.Errorf("the fault is %v, want the newest one", obj)
		}
	})
}

func TestCache_CachedObjectBecomesFaulty(t *testing.T) {
	for name, boxes := range map[string]map[string]string{
		"the first one": {"a": "1", "b": "2"},
		"another one":   {"a": "1", "b": "2", "old": "0.5"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, boxes, func(w *world) {
				w.wantEvents("added a 1", "added b 2")
				w.edit("a", "1.5")
				w.edit("b", "20")
				w.wait()
				w.wantEvents("missed deleted a 1", "updated b 20")
				w.edit("a", "10")
				w.wait()
				w.wantEvents("added a 10")
				w.delete("a")
				w.wait()
				w.wantEvents("deleted a 10")
			})
		})
	}
}

func TestCache_FaultyObjectIsDeleted(t *testing.T) {
	inWorld(t, map[string]string{"a": "1", "bad": "1.5", "worse": "2.5"}, func(w *world) {
		w.wantEvents("added a 1")
		w.delete("bad")
		w.wait()
		w.wantFaults("worse spec.size")
		w.edit("a", "9.5")
		w.delete("a")
		w.wait()
		w.wantEvents("missed deleted a 1")
		w.wantFaults("worse spec.size")
		w.delete("worse")
		w.create("b", "2")
		w.wait()
		w.wantEvents("added b 2")
		w.wantFaults()
	})
}

func TestCache_ObjectIsReplaced(t *testing.T) {
	inWorld(t, map[string]string{"bad": "1.5"}, func(w *world) {
		w.delete("bad")
		w.create("bad", "2")
		w.wait()
		w.wantEvents("added bad 2")
		w.wantFaults()
	})
}

// The Go type panics for an object. The cache must leave it out, too, in the initial list and in the watch.
func TestCache_PanicOfTheGoType(t *testing.T) {
	const torn = `"spec":{"size":3},"tape":["silver","torn"]`
	inWorldOf(t, &reel{}, &reelList{}, map[string]string{"a": "1", "bad": torn}, false, func(w *world) {
		w.wantEvents("added a 1")
		w.wantFaults("bad tape[1]")
		w.create("worse", torn)
		w.create("b", "2")
		w.wait()
		w.wantEvents("added b 2")
		w.wantFaults("bad tape[1]", "worse tape[1]")
		w.delete("bad")
		w.delete("worse")
		w.wait()
		w.wantFaults()
		<-time.After(20 * time.Minute) // the watch ends
		w.create("bad", torn)
		w.wait()
		w.wantFaults("bad tape[1]")
	})
}

// Without faulty objects, no response is filtered, so nothing is decoded twice. This is also so after the last faulty object is gone.
func TestCache_HealthyKindsAreNotFiltered(t *testing.T) {
	inWorld(t, map[string]string{"a": "1"}, func(w *world) {
		before := w.requests.count.Load()
		w.create("b", "2")
		w.edit("b", "3")
		w.wait()
		w.wantEvents("added a 1", "added b 2", "updated b 3")
		if sent, filtered := w.requests.count.Load()-before, w.requests.filtered.Load(); sent != 0 || filtered != 0 {
			w.Errorf("%d requests were sent, and %d were filtered, want none", sent, filtered)
		}
		w.create("bad", "1.5")
		w.wait()
		w.wantFaults("bad spec.size")
		w.delete("bad")
		<-time.After(20 * time.Minute) // the filtered watch ends
		filtered := w.requests.filtered.Load()
		if filtered == 0 {
			w.Error("no request was filtered")
		}
		<-time.After(20 * time.Minute)
		w.create("c", "4")
		w.wait()
		w.wantEvents("added c 4")
		if now := w.requests.filtered.Load(); now != filtered {
			w.Errorf("%d requests were filtered after the last faulty object was deleted, want none", now-filtered)
		}
	})
}

func TestTolerate_MayPanic(t *testing.T) {
	type decoder struct{ Tape map[string][]tape }
	type trusted struct {
		Since *metav1.Time
		Next  *trusted
		Until time.Time
		Spec  boxSpec
	}
	for _, test := range []struct {
		value any
		want  bool
	}{{box{}, false}, {reel{}, true}, {decoder{}, true}, {trusted{}, false}} {
		if got := decoding.MayPanic(reflect.TypeOf(test.value)); got != test.want {
			t.Errorf("mayPanic(%T) = %v, want %v", test.value, got, test.want)
		}
	}
}
