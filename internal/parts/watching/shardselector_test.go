package watching_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/watching"
)

var lowerHalf = sharding.NewSelector(sharding.ShardRangeRequirement{Key: "object.metadata.uid", Start: "0x0000000000000000", End: "0x8000000000000000"})

// twoHalves returns names of objects with themselves as UID, in the lower and the upper half of the hashes.
func twoHalves(count int) (lower, upper []string) {
	for i := 0; len(lower) < count || len(upper) < count; i++ {
		name := fmt.Sprint("uid-", i)
		if sharding.HashField(name) < "8" {
			lower = append(lower, name)
		} else {
			upper = append(upper, name)
		}
	}
	return lower[:count], upper[:count]
}

func TestWithShardSelector_Lists(t *testing.T) {
	lower, upper := twoHalves(5)
	all := append(slices.Clone(lower), upper...)
	typed, untyped, partial := &corev1.ConfigMapList{}, &unstructured.UnstructuredList{}, &metav1.PartialObjectMetadataList{}
	for _, name := range all {
		of := metav1.ObjectMeta{Name: name, UID: types.UID(name)}
		typed.Items = append(typed.Items, corev1.ConfigMap{ObjectMeta: of})
		partial.Items = append(partial.Items, metav1.PartialObjectMetadata{ObjectMeta: of})
		obj := unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		obj.SetName(name)
		obj.SetUID(types.UID(name))
		untyped.Items = append(untyped.Items, obj)
	}
	for name, list := range map[string]runtime.Object{"typed": typed, "untyped": untyped, "metadata": partial} {
		t.Run(name, func(t *testing.T) {
			var sent string
			dropped := 0
			lw := watching.WithShardSelector(&toolscache.ListWatch{ListWithContextFunc: func(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
				sent = options.ShardSelector
				return list, nil
			}}, lowerHalf, func() { dropped++ })
			got, err := lw.ListWithContext(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			if err := meta.EachListItem(got, func(item runtime.Object) error {
				names = append(names, item.(metav1.Object).GetName())
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(names, lower) || dropped != len(upper) || sent != lowerHalf.String() {
				t.Errorf("List() = %v, dropped %d, with the selector %q; want %v, %d", names, dropped, sent, lower, len(upper))
			}
		})
	}
}

func TestWithShardSelector_Watches(t *testing.T) {
	lower, upper := twoHalves(1)
	mine := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: types.UID(lower[0])}}
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: types.UID(upper[0])}}
	source := watch.NewFakeWithChanSize(8, false)
	var sent string
	dropped := 0
	lw := watching.WithShardSelector(&toolscache.ListWatch{WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
		sent = options.ShardSelector
		return source, nil
	}}, lowerHalf, func() { dropped++ })
	w, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range []*corev1.ConfigMap{mine, other} {
		source.Add(obj)
		source.Modify(obj)
		source.Delete(obj)
	}
	source.Action(watch.Bookmark, &corev1.ConfigMap{}) // without a UID
	source.Error(&metav1.Status{})
	w.Stop()
	var got []watch.EventType
	for event := range w.ResultChan() {
		got = append(got, event.Type)
	}
	want := []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark, watch.Error}
	if !slices.Equal(got, want) || dropped != 3 || sent != lowerHalf.String() {
		t.Errorf("events = %v, dropped %d, with the selector %q; want %v, 3", got, dropped, sent, want)
	}
}
