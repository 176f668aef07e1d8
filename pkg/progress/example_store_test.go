package progress_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// memoryStore is a custom store that stores records in the process and writes nothing to the objects. A store that
// several workers share needs a mutex.
type memoryStore map[types.UID]map[string]progress.Record

func (f memoryStore) Fetch(obj client.Object, id string) (*progress.Record, error) {
	if record, ok := f[obj.GetUID()][id]; ok {
		return &record, nil
	}
	return nil, nil
}

func (f memoryStore) Store(obj client.Object, id string, record progress.Record) error {
	if f[obj.GetUID()] == nil {
		f[obj.GetUID()] = map[string]progress.Record{}
	}
	f[obj.GetUID()][id] = record
	return nil
}

func (f memoryStore) Purge(obj client.Object, id string) error {
	delete(f[obj.GetUID()], id)
	return nil
}

func (f memoryStore) Clear(map[string]any) {} // the store writes nothing to the object

// A custom store has four methods and works like the other stores.
func ExampleStore() {
	obj := &corev1.ConfigMap{}
	obj.UID = "1"
	install := progress.Step{ID: "install", Do: func(_ context.Context, attempt progress.Attempt) error {
		fmt.Println("installing, attempt", attempt.Number)
		if attempt.Number == 0 {
			return progress.Temporary(errors.New("not yet"), 0)
		}
		return nil
	}}
	records := memoryStore{}
	for range 3 {
		report, err := progress.Run(context.Background(), records, obj, "create", install)
		fmt.Println("done:", report.Done, err)
	}
	fmt.Println("annotations:", len(obj.Annotations))
	// Output:
	// installing, attempt 0
	// done: false <nil>
	// installing, attempt 1
	// done: true <nil>
	// done: true <nil>
	// annotations: 0
}

// Records are nested objects in the status. The kind must have the field.
func ExampleStatus() {
	store := progress.Status("status.volumes.progress")
	obj := &unstructured.Unstructured{Object: map[string]any{"kind": "Volume"}}
	err := store.Store(obj, "create/announce", progress.Record{Purpose: "create", Retries: 2})
	fmt.Println(err)
	fmt.Println(obj.Object["status"])

	fmt.Println(progress.CheckType(obj, store))
	fmt.Println(progress.CheckType(&corev1.ConfigMap{}, store))
	// Output:
	// <nil>
	// map[volumes:map[progress:map[create/announce:map[failure:false purpose:create retries:2 success:false]]]]
	// <nil>
	// the Go type *v1.ConfigMap has no field status: decoding would drop the stored progress; add the field, or use Annotations and AnnotationBaseline
}

// An operator migrates its records from kopf's prefix to another prefix while an older version still runs.
func ExampleMulti() {
	older := progress.Annotations(progress.DefaultPrefix)
	moving := progress.Multi(progress.Annotations("volumes.example.com"), older)

	obj := &corev1.ConfigMap{}
	if err := older.Store(obj, "create", progress.Record{Purpose: "create", Retries: 1}); err != nil {
		fmt.Println(err)
	}
	record, err := moving.Fetch(obj, "create")
	fmt.Println("attempts so far:", record.Retries, err)

	record.Retries++
	if err := moving.Store(obj, "create", *record); err != nil {
		fmt.Println(err)
	}
	fmt.Println(obj.Annotations["volumes.example.com/create"])
	fmt.Println(obj.Annotations["kopf.zalando.org/create"])
	// Output:
	// attempts so far: 1 <nil>
	// {"purpose":"create","retries":2,"success":false,"failure":false}
	// {"purpose":"create","retries":2,"success":false,"failure":false}
}

// A field that other controllers change often does not cause an update.
func ExampleIgnoringFields() {
	baseline := progress.IgnoringFields(progress.AnnotationBaseline("volumes.example.com"),
		"spec.replicas", "metadata.annotations.example.com/last-seen")
	essence := map[string]any{
		"spec":     map[string]any{"size": "1Gi", "replicas": 3},
		"metadata": map[string]any{"annotations": map[string]any{"example.com/last-seen": "now"}},
	}
	baseline.Clear(essence)
	fmt.Println(essence)
	// Output:
	// map[spec:map[size:1Gi]]
}

// Sweep removes the records of unknown handlers and keeps all other annotations.
func ExampleSweeper() {
	store := progress.Annotations("volumes.example.com")
	obj := &corev1.ConfigMap{}
	obj.Annotations = map[string]string{"volumes.example.com/size": "1Gi"}
	for _, id := range []string{"create", "create/announce", "removed-from-the-code"} {
		if err := store.Store(obj, id, progress.Record{Purpose: "create", Retries: 1}); err != nil {
			fmt.Println(err)
		}
	}
	if sweeper, ok := store.(progress.Sweeper); ok {
		fmt.Println(sweeper.Sweep(obj, []string{"create", "delete"}))
	}
	for _, key := range keysOf(obj) {
		fmt.Println(key)
	}
	// Output:
	// <nil>
	// volumes.example.com/create
	// volumes.example.com/create.announce
	// volumes.example.com/kopf-managed
	// volumes.example.com/size
}
