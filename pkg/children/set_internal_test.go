package children

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestSet_OrderOfDeletion(t *testing.T) {
	newChild := func(kind, name string, second int, position string) child {
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.Unix(int64(second), 0), OwnerReferences: []metav1.OwnerReference{{UID: "u"}},
		}}
		if position != "" {
			obj.Annotations = map[string]string{positionAnnotation: position}
		}
		return child{Object: obj, gvk: schema.GroupVersionKind{Kind: kind}}
	}
	set := Of(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "u"}}, nil).Set("one")
	for name, test := range map[string]struct {
		existing []child
		want     []string
	}{
		"newer ones first":         {[]child{newChild("A", "db", 1, ""), newChild("A", "app", 2, ""), newChild("B", "queue", 1, "")}, []string{"app", "queue", "db"}},
		"later kinds first":        {[]child{newChild("A", "a", 1, ""), newChild("A", "b", 1, ""), newChild("B", "c", 1, "")}, []string{"c", "b", "a"}},
		"later positions first":    {[]child{newChild("A", "app", 1, "10"), newChild("A", "db", 3, "2"), newChild("B", "queue", 2, "9")}, []string{"app", "queue", "db"}},
		"unreadable positions":     {[]child{newChild("A", "a", 1, "1"), newChild("A", "b", 2, "x"), newChild("B", "c", 3, "")}, []string{"c", "b", "a"}},
		"the order of one instant": {[]child{newChild("A", "a", 1, "1"), newChild("B", "b", 1, "1")}, []string{"b", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			obsolete, err := set.obsolete(nil, test.existing)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, c := range obsolete {
				names = append(names, c.GetName())
			}
			if !slices.Equal(names, test.want) {
				t.Errorf("order = %q, want %q", names, test.want)
			}
		})
	}
}
