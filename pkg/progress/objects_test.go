package progress_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// t0 is the start time of most tests, with the precision of a stored time.
var t0 = time.Date(2020, 12, 31, 23, 59, 59, 123456000, time.UTC)

// configMap returns an object with annotations, given as key, value, key, value...
func configMap(annotations ...string) *corev1.ConfigMap {
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cm", UID: "1"}}
	for pair := range slices.Chunk(annotations, 2) {
		metav1.SetMetaDataAnnotation(&obj.ObjectMeta, pair[0], pair[1])
	}
	return obj
}

// ownedReplicaSet returns a ReplicaSet of a Deployment, as in a watch event.
func ownedReplicaSet(kind, ownerKind string) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: "rs", OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: ownerKind, Name: "d"}},
		},
	}
}

// withStatus returns an unstructured object with a status.
func withStatus(status map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": "w", "uid": "1"},
		"status":   status,
	}}
}

// namesOf returns the sorted names of the object's annotations with a prefix, without the marker.
func namesOf(obj client.Object, prefix string) []string {
	var names []string
	for key := range obj.GetAnnotations() {
		if name, ok := strings.CutPrefix(key, prefix+"/"); ok && name != "kopf-managed" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func keysOf(obj client.Object) []string { return slices.Sorted(maps.Keys(obj.GetAnnotations())) }

func mustStore(t testing.TB, store progress.Store, obj client.Object, id string, record progress.Record) {
	t.Helper()
	if err := store.Store(obj, id, record); err != nil {
		t.Fatalf("Store(%q): %v", id, err)
	}
}

func mustFetch(t testing.TB, store progress.Store, obj client.Object, id string) *progress.Record {
	t.Helper()
	record, err := store.Fetch(obj, id)
	if err != nil {
		t.Fatalf("Fetch(%q): %v", id, err)
	}
	return record
}

func mustPurge(t testing.TB, store progress.Store, obj client.Object, id string) {
	t.Helper()
	if err := store.Purge(obj, id); err != nil {
		t.Fatalf("Purge(%q): %v", id, err)
	}
}

// equal fails the test if the values differ.
func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// jsonOf returns the JSON form of an object.
func jsonOf(t testing.TB, obj client.Object) map[string]any {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// expectSameError fails the test unless the errors are identical.
func expectSameError(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("error = %v, want %v", got, want)
	}
}

// advance advances the clock of a synctest bubble.
func advance(d time.Duration) { <-time.After(d) }
