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
	isRecorded := func(o *Owner, n int, hash, version string) bool {
		return o.lastResponse(state(o, n, hash, ""), state(o, n, "", version)) != nil
	}
	o.recordApply(state(o, 0, "a", "10"))
	if !isRecorded(o, 0, "a", "9") {
		t.Error("apply is recorded = false, want true")
	}
	o.recordApply(state(o, 0, "b", "8"))
	if late, newer := isRecorded(o, 0, "b", "7"), isRecorded(o, 0, "a", "7"); late || !newer {
		t.Errorf("late response is recorded = %t, newer response is recorded = %t, want false and true", late, newer)
	}
	for what, other := range map[string]*Owner{
		"another field owner": Of(nil, o.client, FieldOwner("two")),
		"another server":      Of(nil, fake.NewClientBuilder().Build(), FieldOwner("one")),
	} {
		if isRecorded(other, 0, "a", "9") {
			t.Errorf("apply is recorded for %s = true, want false", what)
		}
	}
	if first, second := isRecorded(o, 0, "a", "?"), isRecorded(o, 0, "a", "9"); first || second {
		t.Errorf("apply is recorded for a live object with an invalid version = %t, and later = %t, want false and false", first, second)
	}
	for n := range maxRecent + 10 {
		o.recordApply(state(o, n, "a", "10"))
	}
	if len(recent.entries) != maxRecent || recent.order.Len() != maxRecent {
		t.Errorf("len(entries) = %d, order.Len() = %d, want %d", len(recent.entries), recent.order.Len(), maxRecent)
	}
	if oldest, newer := isRecorded(o, 0, "a", "9"), isRecorded(o, maxRecent, "a", "9"); oldest || !newer {
		t.Errorf("oldest apply is recorded = %t, newer apply is recorded = %t, want false and true", oldest, newer)
	}
	before := recent.order.Len()
	if recorded := isRecorded(o, maxRecent, "a", "10"); recorded || recent.order.Len() != before-1 {
		t.Errorf("apply that the cache contains is recorded = %t, order.Len() = %d, want false and %d", recorded, recent.order.Len(), before-1)
	}
}
