package eventwatch_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/eventwatch"
)

// inventedOwners is a reader of pods. Each pod has a number of owners of one kind.
type inventedOwners struct {
	client.Reader
	kind   string
	owners int
	reads  int
}

func (r *inventedOwners) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	r.reads++
	obj.SetUID(types.UID(key.Name))
	obj.SetNamespace(key.Namespace)
	var refs []metav1.OwnerReference
	for i := range r.owners {
		name := fmt.Sprintf("%s-%d", key.Name, i)
		refs = append(refs, metav1.OwnerReference{APIVersion: "v1", Kind: r.kind, Name: name, UID: types.UID(name)})
	}
	obj.SetOwnerReferences(refs)
	return nil
}

// Users may write any number of owner references.
func TestOwners_LimitsInventedOwners(t *testing.T) {
	const most = 200
	for name, test := range map[string]struct {
		kind        string
		reads, want int
	}{
		"of the kind":          {"ConfigMap", 1, most},
		"of a dependent kind":  {"Pod", most, 0},
		"of an unrelated kind": {"Secret", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			reader := &inventedOwners{kind: test.kind, owners: 5000}
			owners := eventwatch.NewOwners(reader, schema.GroupKind{Kind: "ConfigMap"}, true, []schema.GroupVersionKind{{Version: "v1", Kind: "Pod"}})
			found, err := owners.Of(t.Context(), logr.Discard(), corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "a", UID: "a"})
			if err != nil || len(found) != test.want || reader.reads > test.reads {
				t.Errorf("%d owners after %d reads, error %v; want %d after at most %d", len(found), reader.reads, err, test.want, test.reads)
			}
		})
	}
}
