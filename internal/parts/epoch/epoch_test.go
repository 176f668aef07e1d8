package epoch_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/epoch"
)

// configMap returns an object whose uid is its name.
func configMap(namespace, name, version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), ResourceVersion: version}}
}

// caches are the versions of the stores by namespace. A namespace without a version has no known store.
type caches map[string]string

func (c caches) store(namespace string) toolscache.Store {
	if _, known := c[namespace]; !known {
		return nil
	}
	return &toolscache.FakeCustomStore{LastStoreSyncResourceVersionFunc: func() string { return c[namespace] }}
}

func TestEpoch_Decisions(t *testing.T) {
	of := func(version string, scoped bool, stores caches) *epoch.Epoch {
		return &epoch.Epoch{Version: version, Scoped: scoped, Store: stores.store}
	}
	enter := func(e *epoch.Epoch, namespace, version string) *epoch.Epoch {
		e.Enter(namespace, version)
		return e
	}
	for name, test := range map[string]struct {
		epoch                    *epoch.Epoch
		version                  string // of the object, in the namespace "ns"
		isPassed, isOlder, exist bool
	}{
		"no epoch":                         {nil, "5", true, false, false},
		"an unknown epoch":                 {of("", false, caches{"ns": "10"}), "5", false, true, false},
		"an unknown epoch and no versions": {of("", false, caches{"ns": ""}), "", false, true, false},
		"an older object and cache":        {of("10", false, caches{"ns": "9"}), "9", false, true, true},
		"an object of the epoch":           {of("10", false, caches{"ns": "9"}), "10", false, false, true},
		"a newer object":                   {of("10", false, caches{"ns": "9"}), "11", false, false, false},
		"a cache of the epoch":             {of("10", false, caches{"ns": "10"}), "9", true, true, true},
		"a newer cache":                    {of("10", false, caches{"ns": "11"}), "11", true, false, false},
		"a cache that was not listed yet":  {of("10", false, caches{"ns": ""}), "9", false, true, true},
		"an unknown store":                 {of("10", false, nil), "9", false, true, true},
		"a store of another namespace":     {of("10", false, caches{"other": "11"}), "9", false, true, true},
		"versions that are no numbers":     {of("10", false, caches{"ns": "x"}), "y", false, true, false},
		"an entered namespace":             {enter(of("10", true, caches{"ns": "15"}), "ns", "20"), "15", false, true, true},
		"an entered namespace, passed":     {enter(of("10", true, caches{"ns": "20"}), "ns", "20"), "21", true, false, false},
		"an entered namespace of unknown":  {enter(of("", true, caches{"ns": "20"}), "ns", "20"), "20", true, false, true},
		"an entered namespace, unknown":    {enter(of("10", true, caches{"ns": "20"}), "ns", ""), "20", false, true, false},
		"another namespace was entered":    {enter(of("10", true, caches{"ns": "15"}), "other", "20"), "15", true, false, false},
		"a scope without entered versions": {of("", true, caches{"ns": "15"}), "15", false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			obj := configMap("ns", "one", test.version)
			if got := test.epoch.IsPassed("ns"); got != test.isPassed {
				t.Errorf("IsPassed = %t, want %t", got, test.isPassed)
			}
			if got := test.epoch.IsOlder(obj); got != test.isOlder {
				t.Errorf("IsOlder = %t, want %t", got, test.isOlder)
			}
			if got := test.epoch.Existed(obj); got != test.exist {
				t.Errorf("Existed = %t, want %t", got, test.exist)
			}
		})
	}
}

// A namespace that has come into scope again starts with a new version and a new cache.
func TestEpoch_EnterAndLeave(t *testing.T) {
	stores := caches{"ns": "10", "other": "10"}
	e := &epoch.Epoch{Version: "10", Scoped: true, Store: stores.store}
	for _, step := range []struct {
		name   string
		do     func()
		passed bool
	}{
		{"at the start", func() {}, true},
		{"the cache is replaced", func() { stores["ns"] = "" }, true},
		{"the namespace is entered", func() { e.Enter("ns", "20") }, false},
		{"the cache lags behind", func() { stores["ns"] = "19" }, false},
		{"the cache has reached the version", func() { stores["ns"] = "20" }, true},
		{"the namespace is left", func() { delete(stores, "ns"); e.Leave("ns") }, false},
		{"the namespace has the first version", func() { stores["ns"] = "10" }, true},
	} {
		if step.do(); e.IsPassed("ns") != step.passed {
			t.Errorf("%s: IsPassed = %t, want %t", step.name, !step.passed, step.passed)
		}
		if !e.IsPassed("other") {
			t.Errorf("%s: the cache of another namespace is not trusted", step.name)
		}
	}
	var none *epoch.Epoch
	none.Enter("ns", "20")
	none.Leave("ns")
}

func TestEpoch_Stored(t *testing.T) {
	cached := configMap("ns", "one", "9")
	for name, test := range map[string]struct {
		version string
		scoped  bool
		stored  any
		err     error
		want    client.Object
	}{
		"an object":                 {"10", false, cached, nil, cached},
		"the cache is older":        {"11", false, cached, nil, cached},
		"the namespaces can change": {"10", true, cached, nil, nil},
		"no object":                 {"10", false, nil, nil, nil},
		"a tombstone":               {"10", false, toolscache.DeletedFinalStateUnknown{Obj: cached}, nil, nil},
		"an error":                  {"10", false, cached, errors.New("no key"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			store := &toolscache.FakeCustomStore{
				LastStoreSyncResourceVersionFunc: func() string { return "10" },
				GetByKeyFunc: func(key string) (any, bool, error) {
					if key != "ns/one" {
						t.Errorf("the key is %q, want %q", key, "ns/one")
					}
					return test.stored, test.stored != nil, test.err
				},
			}
			searches := 0
			e := &epoch.Epoch{Version: test.version, Scoped: test.scoped, Store: func(string) toolscache.Store { searches++; return store }}
			for range 2 {
				e.IsPassed("ns") // as at the start of a reconcile
				if got := e.Stored(client.ObjectKeyFromObject(cached)); got != test.want {
					t.Errorf("got %v, want %v", got, test.want)
				}
			}
			if searches != 1 {
				t.Errorf("the store was searched for %d times, want once, because that is expensive", searches)
			}
		})
	}
}
