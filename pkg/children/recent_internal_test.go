package children

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestRecentApplies_AreBounded(t *testing.T) {
	state := func(o *Owner, n int, hash, version string) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{}
		obj.SetUID(types.UID(fmt.Sprint(n)))
		obj.SetResourceVersion(version)
		obj.SetAnnotations(map[string]string{o.appliedKey(): hash})
		return obj
	}
	o := Of(nil, fake.NewClientBuilder().Build(), FieldOwner("one"))
	remembered := func(o *Owner, n int, hash, version string) bool {
		return o.lastAnswer(state(o, n, hash, ""), state(o, n, "", version)) != nil
	}
	o.recordApply(state(o, 0, "a", "10"))
	if !remembered(o, 0, "a", "9") {
		t.Error("the apply was not recorded")
	}
	o.recordApply(state(o, 0, "b", "8"))
	if remembered(o, 0, "b", "7") || !remembered(o, 0, "a", "7") {
		t.Error("a late response replaced a newer one")
	}
	for what, other := range map[string]*Owner{
		"another field owner": Of(nil, o.client, FieldOwner("two")),
		"another server":      Of(nil, fake.NewClientBuilder().Build(), FieldOwner("one")),
	} {
		if remembered(other, 0, "a", "9") {
			t.Error(what)
		}
	}
	if remembered(o, 0, "a", "?") || remembered(o, 0, "a", "9") {
		t.Error("a version that cannot be compared counts as older")
	}
	for n := range maxRecent + 10 {
		o.recordApply(state(o, n, "a", "10"))
	}
	if len(recent.entries) != maxRecent || recent.order.Len() != maxRecent {
		t.Errorf("recorded applies = %d entries and %d in order, want the limit", len(recent.entries), recent.order.Len())
	}
	if remembered(o, 0, "a", "9") || !remembered(o, maxRecent, "a", "9") {
		t.Error("the oldest applies must be removed first")
	}
	before := recent.order.Len()
	if remembered(o, maxRecent, "a", "10") || recent.order.Len() != before-1 {
		t.Error("the apply must be removed when the cache contains it")
	}
}
