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
		t.Error("an apply is not remembered")
	}
	o.recordApply(state(o, 0, "b", "8"))
	if remembered(o, 0, "b", "7") || !remembered(o, 0, "a", "7") {
		t.Error("an answer that came late has replaced a newer one")
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
		t.Error("a version that cannot be compared is taken for an older one")
	}
	for n := range maxRecent + 10 {
		o.recordApply(state(o, n, "a", "10"))
	}
	if len(recent.entries) != maxRecent || recent.order.Len() != maxRecent {
		t.Errorf("%d and %d applies are remembered", len(recent.entries), recent.order.Len())
	}
	if remembered(o, 0, "a", "9") || !remembered(o, maxRecent, "a", "9") {
		t.Error("the oldest ones are not forgotten first")
	}
	before := recent.order.Len()
	if remembered(o, maxRecent, "a", "10") || recent.order.Len() != before-1 {
		t.Error("an apply is remembered although the cache shows it")
	}
}
