package shards

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	testShard = &Shard{Label: "shard", Name: "one", Drain: "drain"}
	testKey   = types.NamespacedName{Namespace: "ns", Name: "a"}
)

func shardObject(uid string, labels ...string) *corev1.ConfigMap {
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: types.UID(uid), Labels: map[string]string{}}}
	for i := 0; i < len(labels); i += 2 {
		obj.Labels[labels[i]] = labels[i+1]
	}
	return obj
}

func TestShard_Leaves(t *testing.T) {
	for name, c := range map[string]struct {
		shard  *Shard
		object *corev1.ConfigMap
		want   bool
	}{
		"no sharding": {nil, shardObject("1"), false},
		"assigned":    {testShard, shardObject("1", "shard", "one"), false},
		"drained":     {testShard, shardObject("1", "shard", "one", "drain", ""), true},
		"of another":  {testShard, shardObject("1", "shard", "two"), true},
		"unassigned":  {testShard, shardObject("1"), true},
	} {
		if got := c.shard.Leaves(c.object); got != c.want {
			t.Errorf("%s: Leaves() = %t, want %t", name, got, c.want)
		}
	}
}

// The events of the watch and the response to the release come in any order.
func TestReleases(t *testing.T) {
	assigned, drained := shardObject("1", "shard", "one"), shardObject("1", "shard", "one", "drain", "true")
	recreated := shardObject("2", "shard", "one")
	type step struct {
		object         *corev1.ConfigMap // an event; nil for the response
		deleted        bool
		removed        bool          // the response is a success
		taken, returns bool          // of the event
		returned       client.Object // in the response
		left, back     bool          // of the response
	}
	old, departure := step{object: drained, taken: true}, step{object: drained, deleted: true, taken: true}
	for name, c := range map[string]struct {
		steps []step
		known bool // the release is still known at the end
	}{
		"the response is first":             {[]step{{removed: true, left: true}, old, departure}, false},
		"the departure is still to come":    {[]step{{removed: true, left: true}, old}, true},
		"the departure is first":            {[]step{departure, {removed: true, left: true}}, false},
		"a failure":                         {[]step{{object: drained}, {}}, false},
		"a failure whose request succeeded": {[]step{departure, {left: true}}, false},
		"a return after the departure":      {[]step{{removed: true, left: true}, departure, {object: assigned}}, false},
		"a return in the same request":      {[]step{{removed: true, returned: assigned, left: true, back: true}, {object: assigned, taken: true}}, true},
		"a return after the response":       {[]step{{removed: true, left: true}, old, {object: assigned, returns: true}}, false},
		"a return before the response":      {[]step{departure, {object: assigned, taken: true}, {removed: true, left: true, back: true}}, true},
		"a return and a second drain before the response": {
			[]step{departure, {object: assigned, taken: true}, {object: drained, taken: true}, {removed: true, left: true, back: true}}, true,
		},
		"a return and a second departure before the response": {
			[]step{departure, {object: assigned, taken: true}, departure, {removed: true, left: true}}, false,
		},
		"another object with the name before the response": {
			[]step{departure, {object: recreated, taken: true}, {removed: true, left: true, back: true}}, true,
		},
		"another object whose predecessor's departure was missed": {[]step{{object: recreated, taken: true}, {left: true, back: true}}, true},
		"another object with the name":                            {[]step{{removed: true, left: true}, {object: recreated}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var r Releases
			r.Begin(testKey, "1")
			for i, s := range c.steps {
				if s.object != nil {
					if taken, returns := r.Takes(testShard, s.object, s.deleted); taken != s.taken || returns != s.returns {
						t.Errorf("step %d: taken = %t, returns = %t, want %t, %t", i, taken, returns, s.taken, s.returns)
					}
					continue
				}
				if left, back := r.End(testKey, s.removed, s.returned); left != s.left || back != s.back {
					t.Errorf("step %d: left = %t, back = %t, want %t, %t", i, left, back, s.left, s.back)
				}
			}
			if known := r.byKey[testKey] != nil; known != c.known {
				t.Errorf("the release is known: %t, want %t", known, c.known)
			}
		})
	}
}
