package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
)

// With sharding.ServerSide, three processes share the databases without a sharder. The API server in memory ignores shard selectors, as an API server without
// the feature gate does. Each operator then ignores the databases of the other processes.
func TestServerSide(t *testing.T) {
	const total, count = 3, 10
	synctest.Test(t, func(t *testing.T) {
		cluster, log := kopftest.Memory(t, kopftest.CRDs("config/crd")), &attemptLog{}
		rings, operators := map[int]sharding.Ring{}, map[int]*kopftest.Operator{}
		for index := range total { // in a pod: strconv.Atoi(os.Getenv("POD_INDEX"))
			rings[index] = sharding.ServerSide(ring, index, total, sharding.LeaseNamespace("default"))
			operators[index] = cluster.Run(t, databases(), kopf.WithSharding(rings[index]), log.record(index))
		}
		for i := range count {
			cluster.Create(t, newDatabase(i))
		}
		for _, operator := range operators {
			operator.RunUntilQuiet(t)
		}
		for i := range count {
			database, want := newDatabase(i), ""
			cluster.Get(t, database)
			for index, ring := range rings {
				selected, err := ring.Selector().Matches(database)
				if err != nil {
					t.Fatal(err)
				}
				if selected { // exactly one ring selects a database, by the hash of its uid
					want += fmt.Sprintf("provision by process %d, watch by process %d", index, index)
				}
			}
			if got := log.of(database); got != want {
				t.Errorf("%s: attempts = %q, want %q", database.GetName(), got, want)
			}
		}
	})
}

func newDatabase(i int) *unstructured.Unstructured {
	database := kopf.Unstructured(schema.GroupVersionKind{Group: "demo.example.com", Version: "v1", Kind: "Database"})
	database.SetNamespace("default")
	database.SetName(fmt.Sprintf("orders-%d", i))
	database.Object["spec"] = map[string]any{"engine": "postgres", "sizeGiB": int64(10)}
	return database
}

// attemptLog records the attempts of handlers of several operators.
type attemptLog struct {
	mu       sync.Mutex
	byObject map[string][]string
}

func (l *attemptLog) record(index int) kopf.Option {
	return kopf.WithAttemptHook(func(ctx context.Context, a kopf.AttemptInfo) (context.Context, func(progress.Outcome)) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.byObject == nil {
			l.byObject = map[string][]string{}
		}
		l.byObject[a.Object.Name] = append(l.byObject[a.Object.Name], fmt.Sprintf("%s by process %d", a.Handler, index))
		return ctx, nil
	})
}

// of returns the attempts for an object, sorted.
func (l *attemptLog) of(obj *unstructured.Unstructured) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(slices.Sorted(slices.Values(l.byObject[obj.GetName()])), ", ")
}
