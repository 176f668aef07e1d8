package epoch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/epoch"
)

var errList = errors.New("the API server is down")

// reader is an API server that has some objects. It returns two objects a page.
type reader struct {
	client.Reader
	objects  []*corev1.ConfigMap
	err      error
	requests []string // such as "ns limit=500"
}

func (r *reader) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	r.requests = append(r.requests, fmt.Sprintf("%s limit=%d%s", options.Namespace, options.Limit, options.Continue))
	list := into.(*metav1.PartialObjectMetadataList)
	if kind := list.GetObjectKind().GroupVersionKind().Kind; kind != "ConfigMapList" {
		return fmt.Errorf("the kind is %q", kind)
	}
	for _, obj := range r.objects {
		if options.Namespace == "" || options.Namespace == obj.Namespace {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: obj.ObjectMeta})
		}
	}
	if options.Limit > 0 {
		if options.Continue != "" {
			list.Items = list.Items[2:]
		} else if len(list.Items) > 2 {
			list.Items, list.Continue = list.Items[:2], " page=2"
		}
	}
	return r.err
}

// operator has what an Epoch needs.
type operator struct {
	epoch  *epoch.Epoch
	reader *reader
	states *objectstate.Store[struct{}]
	stores caches
}

// newOperator returns an operator with the epoch 10, whose cache is older.
func newOperator(objects ...*corev1.ConfigMap) *operator {
	o := &operator{reader: &reader{objects: objects}, states: objectstate.New[struct{}](objectstate.Options{}), stores: caches{"": "9", "ns": "9", "other": "10"}}
	o.epoch = &epoch.Epoch{Version: "10", Store: o.stores.store, Reader: o.reader, GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), States: o.states}
	return o
}

// start is when tests start in virtual time.
var start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// expectResult checks an error, and the time since the start of the test. want is a part of the error; empty if none is expected.
func expectResult(t *testing.T, err error, want string, took time.Duration) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v, want %q", err, want)
	}
	if got := time.Since(start); got != took {
		t.Errorf("it took %s, want %s", got, took)
	}
}

func TestEpoch_Await(t *testing.T) {
	const poll = 100 * time.Millisecond
	for name, test := range map[string]struct {
		objects    []*corev1.ConfigMap // on the API server
		namespaces []string
		prepare    func(o *operator)
		requests   []string
		err        string
		took       time.Duration
	}{
		"the cache has reached the epoch": {namespaces: []string{"other"}},
		"no objects":                      {namespaces: []string{"other", "ns"}, requests: []string{"ns limit=500"}},
		"the objects are known": {
			objects: []*corev1.ConfigMap{configMap("ns", "one", "8")}, namespaces: []string{"ns"},
			prepare:  func(o *operator) { o.states.Observe(configMap("ns", "one", "8"), true) },
			requests: []string{"ns limit=500"}, took: poll,
		},
		"an object is delivered later": {
			objects: []*corev1.ConfigMap{configMap("ns", "one", "9"), configMap("ns", "two", "9"), configMap("ns", "three", "10")}, namespaces: []string{"ns"},
			prepare: func(o *operator) {
				o.states.Observe(configMap("ns", "one", "9"), true)
				o.states.Observe(configMap("ns", "two", "8"), true)
				time.AfterFunc(150*time.Millisecond, func() { o.states.Observe(configMap("ns", "two", "9"), false) })
				time.AfterFunc(250*time.Millisecond, func() { o.states.Observe(configMap("ns", "three", "11"), false) })
			},
			requests: []string{"ns limit=500", "ns limit=500 page=2"}, took: 4 * poll,
		},
		"an object was deleted since": {
			objects: []*corev1.ConfigMap{configMap("ns", "one", "10")}, namespaces: []string{"ns"},
			prepare: func(o *operator) {
				o.epoch.Store = func(namespace string) toolscache.Store {
					if time.Since(start) < 150*time.Millisecond {
						return o.stores.store(namespace)
					}
					return caches{namespace: "10"}.store(namespace)
				}
			},
			requests: []string{"ns limit=500"}, took: 3 * poll,
		},
		"the list fails": {
			namespaces: []string{"ns"}, prepare: func(o *operator) { o.reader.err = errList },
			requests: []string{"ns limit=500"}, err: "to complete an old initial list: " + errList.Error(),
		},
		"the cache remains older": {
			objects: []*corev1.ConfigMap{configMap("ns", "one", "9"), configMap("ns", "two", "10")}, namespaces: []string{"ns"},
			prepare:  func(o *operator) { o.states.Observe(configMap("ns", "one", "9"), true) },
			requests: []string{"ns limit=500"}, err: "the cache is older than the start of the operator: 1 objects are missing", took: 30 * time.Second,
		},
		"no epoch": {namespaces: []string{"ns"}, prepare: func(o *operator) { o.epoch = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOperator(test.objects...)
				if test.prepare != nil {
					test.prepare(o)
				}
				expectResult(t, o.epoch.Await(t.Context(), test.namespaces...), test.err, test.took)
				if !slices.Equal(o.reader.requests, test.requests) {
					t.Errorf("the requests are %q, want %q", o.reader.requests, test.requests)
				}
			})
		})
	}
}

func TestEpoch_Verify(t *testing.T) {
	for name, test := range map[string]struct {
		objects   []*corev1.ConfigMap // on the API server
		observed  []*corev1.ConfigMap
		delivered time.Duration // when the informer has delivered the cache
		prepare   func(o *operator)
		err       string
		took      time.Duration
		skips     bool // Verify makes no request
		unproved  bool
	}{
		"the same objects": {
			objects:  []*corev1.ConfigMap{configMap("ns", "one", "5"), configMap("ns", "two", "6"), configMap("ns", "three", "7")},
			observed: []*corev1.ConfigMap{configMap("ns", "one", "5"), configMap("ns", "two", "6"), configMap("ns", "three", "8")},
		},
		"the objects are delivered later": {
			objects: []*corev1.ConfigMap{configMap("ns", "one", "5")}, observed: []*corev1.ConfigMap{configMap("ns", "one", "5")},
			delivered: 20 * time.Second, took: 20 * time.Second,
		},
		"the objects are not delivered": {
			delivered: time.Minute, took: 30 * time.Second, err: "the cache is older", unproved: true,
		},
		"an object is older": {
			objects: []*corev1.ConfigMap{configMap("ns", "one", "10")}, observed: []*corev1.ConfigMap{configMap("ns", "one", "5")},
			prepare: func(o *operator) {
				time.AfterFunc(1050*time.Millisecond, func() { o.states.Observe(configMap("ns", "one", "10"), false) })
			},
			took: 1100 * time.Millisecond,
		},
		"an object is deleted": {
			observed: []*corev1.ConfigMap{configMap("ns", "one", "5")},
			prepare: func(o *operator) {
				time.AfterFunc(1050*time.Millisecond, func() { o.states.MarkLeft(objectstate.LeftObject{Object: configMap("ns", "one", "5")}) })
			},
			took: 1100 * time.Millisecond,
		},
		"an object is newer than the list": {observed: []*corev1.ConfigMap{configMap("ns", "one", "11")}},
		"an object has left the cache":     {objects: []*corev1.ConfigMap{configMap("ns", "one", "6")}}, // in a version up to that of the cache
		"an object is missing": {
			objects: []*corev1.ConfigMap{configMap("ns", "one", "10")},
			took:    30 * time.Second, err: "the cache is older", unproved: true,
		},
		"the list fails": {
			prepare: func(o *operator) { o.reader.err = errList },
			err:     "to verify the cache: " + errList.Error(), unproved: true,
		},
		"a scope":  {prepare: func(o *operator) { o.epoch.Scoped = true }, skips: true, unproved: true},
		"no epoch": {prepare: func(o *operator) { o.epoch = nil }, skips: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOperator(test.objects...)
				for _, obj := range test.observed {
					o.states.Observe(obj, true)
				}
				if test.prepare != nil {
					test.prepare(o)
				}
				delivered := make(chan struct{})
				time.AfterFunc(test.delivered, func() { close(delivered) })
				expectResult(t, o.epoch.Verify(t.Context(), delivered, ""), test.err, test.took)
				if want := []string{" limit=0"}; !test.skips && !slices.Equal(o.reader.requests, want) || test.skips && len(o.reader.requests) > 0 {
					t.Errorf("the requests are %q, want %q unless Verify does nothing", o.reader.requests, want)
				}
				if o.epoch.IsPassed("ns") == test.unproved {
					t.Errorf("IsPassed = %t, want %t", test.unproved, !test.unproved)
				}
			})
		})
	}
}

func TestEpoch_StopsWithTheContext(t *testing.T) {
	delivered := make(chan struct{})
	close(delivered)
	for name, wait := range map[string]func(context.Context, *epoch.Epoch) error{
		"Await":                 func(ctx context.Context, e *epoch.Epoch) error { return e.Await(ctx, "ns") },
		"Verify, delivered":     func(ctx context.Context, e *epoch.Epoch) error { return e.Verify(ctx, delivered, "ns") },
		"Verify, not delivered": func(ctx context.Context, e *epoch.Epoch) error { return e.Verify(ctx, nil, "ns") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				expectResult(t, wait(ctx, newOperator(configMap("ns", "one", "10")).epoch), context.Canceled.Error(), time.Second)
			})
		})
	}
}
