package conditions_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
)

// For each shape, Set sets the conditions in order, with transition time and generation.
func TestSet_AllRepresentations(t *testing.T) {
	for _, shape := range shapes() {
		t.Run(shape.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { checkShape(t, shape) })
		})
	}
}

func checkShape(t *testing.T, shape shape) {
	condition := func(s *conditions.Set, conditionType string) metav1.Condition {
		t.Helper()
		c, ok := s.Get(conditionType)
		if !ok {
			t.Fatalf("condition %s not found", conditionType)
		}
		return c
	}
	want := metav1.Condition{
		Type: "Ready", Status: metav1.ConditionFalse, Reason: "Starting", Message: "not yet",
		LastTransitionTime: now(), ObservedGeneration: 1,
	}
	if !shape.generation {
		want.ObservedGeneration = 0
	}
	<-time.After(300 * time.Millisecond) // a fraction of a second
	shape.obj.SetGeneration(1)
	s := setOf(t, shape.obj, shape.opts...)
	if s.Changed() || len(s.List()) != 0 {
		t.Error("an empty set must be unchanged and empty")
	}
	s.False("Ready", "Starting", "not yet")
	s.Unknown("Alive", "Starting", "")
	equal(t, "first condition", condition(s, "Ready"), want)
	if !s.Changed() {
		t.Error("Changed returned false after a change")
	}

	<-time.After(time.Hour)
	s = setOf(t, shape.obj, shape.opts...)
	s.False("Ready", "Starting", "not yet")
	if s.Changed() {
		t.Error("setting the same condition again is a change")
	}
	s.False("Ready", "Starting", "still not")
	want.Message = "still not"
	equal(t, "condition with a new message", condition(s, "Ready"), want)
	s.True("Ready", "Starting", "")
	s.False("Ready", "Starting", "still not")
	equal(t, "condition after reverting the status", condition(s, "Ready"), want)
	if !s.Changed() {
		t.Error("Changed returned false for a new message")
	}

	shape.obj.SetGeneration(2)
	s = setOf(t, shape.obj, shape.opts...)
	s.True("Ready", "Up", "")
	want.Status, want.Reason, want.Message, want.LastTransitionTime = metav1.ConditionTrue, "Up", "", now()
	if shape.generation {
		want.ObservedGeneration = 2
	}
	equal(t, "condition after the transition", condition(s, "Ready"), want)

	s.Declare("Alive", "Late")
	types := func() (types []string) {
		for _, c := range s.List() {
			types = append(types, c.Type)
		}
		return types
	}
	order := []string{"Ready", "Alive", "Late"}
	if shape.sorted {
		slices.Sort(order)
	}
	equal(t, "the order", types(), order)
	s.Remove("Alive", "NeverSet")
	equal(t, "remaining types", types(), slices.DeleteFunc(order, func(name string) bool { return name == "Alive" }))
	if err := s.Err(); err != nil {
		t.Error(err)
	}
}

// observedGeneration never decreases. Set does not add it to an unchanged condition, because the schema may not have
// it.
func TestSet_ObservedGeneration(t *testing.T) {
	for _, c := range []struct {
		name             string
		object, observed string
		set              metav1.Condition
		want             int64
		changed          bool
	}{
		{"rises", "3", "2", metav1.Condition{}, 3, true},
		{"does not decrease", "3", "5", metav1.Condition{}, 5, false},
		{"is given", "3", "2", metav1.Condition{ObservedGeneration: 4}, 4, true},
		{"is given and does not decrease", "3", "5", metav1.Condition{ObservedGeneration: 4}, 5, false},
		{"is missing", "3", "null", metav1.Condition{}, 0, false},
		{"is added with a change", "3", "null", metav1.Condition{Message: "new"}, 3, true},
		{"is a float", "3", "2.0", metav1.Condition{}, 3, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			obj := parse(`{"metadata": {"generation": ` + c.object + `}, "status": {"conditions": [
				{"type": "A", "status": "True", "reason": "R", "message": "", "observedGeneration": ` + c.observed + `}]}}`)
			s := setOf(t, obj)
			c.set.Type, c.set.Status, c.set.Reason = "A", metav1.ConditionTrue, "R"
			s.Set(c.set)
			got, _ := s.Get("A")
			equal(t, "the generation", got.ObservedGeneration, c.want)
			equal(t, "changed", s.Changed(), c.changed)
		})
	}
}

func TestSet_GivenTransitionTime(t *testing.T) {
	long := time.Date(2020, 2, 3, 4, 5, 6, 700, time.FixedZone("CET", 3600))
	s := setOf(t, &kind[standardList]{})
	s.Set(metav1.Condition{Type: "A", Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(long)})
	got, _ := s.Get("A")
	equal(t, "given time", got.LastTransitionTime, metav1.NewTime(time.Date(2020, 2, 3, 3, 5, 6, 0, time.UTC)))
	s.Set(metav1.Condition{Type: "A", Status: metav1.ConditionTrue, Message: "m", LastTransitionTime: metav1.Now()})
	got, _ = s.Get("A")
	equal(t, "given time without a transition", got.LastTransitionTime.Time, time.Date(2020, 2, 3, 3, 5, 6, 0, time.UTC))
}

// Set adds a missing time together with the next change. A missing time alone is not a change.
func TestSet_MissingTransitionTime(t *testing.T) {
	for _, obj := range []client.Object{
		parse(`{"status": {"conditions": [{"type": "A", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "yesterday"}]}}`),
		&kind[standardList]{Status: standardList{Conditions: []metav1.Condition{{Type: "A", Status: "True", Reason: "R"}}}},
	} {
		s := setOf(t, obj)
		s.True("A", "R", "")
		if s.Changed() {
			t.Errorf("Changed returned true for a missing time: %s", text(t, obj))
		}
		s.True("A", "R", "new")
		if got, _ := s.Get("A"); got.LastTransitionTime.IsZero() {
			t.Errorf("lastTransitionTime is missing: %s", text(t, obj))
		}
	}
}

func TestFor_NullValues(t *testing.T) {
	for _, in := range []string{
		`{}`, `{"status": null}`, `{"status": {}}`, `{"status": {"conditions": null}}`, `{"status": {"conditions": []}}`,
	} {
		obj := parse(in)
		s := setOf(t, obj)
		s.Remove("Ready")
		equal(t, "unchanged object", text(t, obj), text(t, parse(in)))
		s.True("Ready", "Up", "")
		if got := s.List(); len(got) != 1 || !conditions.Is(obj, "Ready", metav1.ConditionTrue) {
			t.Errorf("%s: got the conditions %v, want only Ready=True", in, got)
		}
	}
	nothing := &unstructured.Unstructured{}
	setOf(t, nothing).True("Ready", "Up", "")
	if !conditions.Is(nothing, "Ready", metav1.ConditionTrue) {
		t.Errorf("empty object = %v, want Ready=True", nothing.Object)
	}
	pointers := &kind[pointed]{Status: pointed{Conditions: []*loose{nil, {Type: "A", Status: "True"}, nil}}}
	s := setOf(t, pointers)
	s.False("A", "R", "")
	s.Remove("B")
	s.True("C", "R", "")
	equal(t, "number of entries, including nulls", len(pointers.Status.Conditions), 4)
	entries := &kind[mappedPointers]{Status: mappedPointers{Conditions: map[corev1.PodConditionType]*loose{"A": nil}}}
	setOf(t, entries).Declare("A")
	equal(t, "status of the entry that was null", entries.Status.Conditions["A"].Status, "Unknown")
}

// Conditions of other controllers and invalid entries keep all of their bytes.
func TestSet_PreservesOtherConditions(t *testing.T) {
	const foreign = `[
		null, "words", 17, {"no": "type"}, {"type": 5},
		{"type": "Theirs", "status": "Perhaps", "lastTransitionTime": "2024-01-01T00:00:00.123456+00:00", "extra": {"a": [1, null]}},
		{"type": "Ours", "status": "True", "reason": "R", "lastTransitionTime": "2024-01-01T00:00:00+00:00", "ttl": 1.5, "lastUpdateTime": null},
		{"type": "Theirs", "status": "False"}
	]`
	obj := parse(`{"status": {"conditions": ` + foreign + `, "phase": "Up"}}`)
	s := setOf(t, obj)
	s.True("Ours", "R", "new")
	s.False("Third", "R", "")
	s.Remove("Third")
	want := parse(`{"status": {"conditions": ` + foreign + `, "phase": "Up"}}`)
	ours := want.Object["status"].(map[string]any)["conditions"].([]any)[6].(map[string]any)
	ours["message"] = "new"
	ours["lastUpdateTime"] = obj.Object["status"].(map[string]any)["conditions"].([]any)[6].(map[string]any)["lastUpdateTime"]
	equal(t, "object", text(t, obj), text(t, want))
	if ours["lastUpdateTime"] == nil {
		t.Error("lastUpdateTime is missing")
	}
}

func TestSet_PreservesUnknownFields(t *testing.T) {
	probed := metav1.NewTime(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: "A", Status: "True", LastProbeTime: probed}}}}
	setOf(t, pod).False("A", "R", "")
	equal(t, "probe time", pod.Status.Conditions[0].LastProbeTime, probed)

	weighty := &kind[mapped]{Status: mapped{Conditions: map[string]loose{"A": {Status: "True", Weight: 3}}}}
	setOf(t, weighty).False("A", "R", "")
	equal(t, "custom field of the condition", weighty.Status.Conditions["A"].Weight, 3)

	deployment := &appsv1.Deployment{}
	setOf(t, deployment).True("A", "R", "")
	if c := deployment.Status.Conditions[0]; c.LastUpdateTime.IsZero() || !c.LastUpdateTime.Equal(&c.LastTransitionTime) {
		t.Errorf("lastUpdateTime = %s, want the transition time", c.LastUpdateTime)
	}
}

func TestFor_Errors(t *testing.T) {
	for _, c := range []struct {
		name string
		obj  client.Object
		opts []conditions.Option
		want string
	}{
		{"nil", nil, nil, "object is nil"},
		{"typed nil", (*corev1.Pod)(nil), nil, "object is nil"},
		{"no status", &corev1.ConfigMap{}, nil, "*v1.ConfigMap has no field status.conditions: add the field, or set its place with At or Using"},
		{"a status without conditions", &corev1.ResourceQuota{}, nil, "has no field status.conditions"},
		{"metadata only", &metav1.PartialObjectMetadata{}, nil, "read it as unstructured"},
		{"a string instead of a list", &kind[struct {
			Conditions string `json:"conditions"`
		}]{}, nil, "not a list or map of conditions"},
		{"a list of strings", &kind[struct {
			Conditions []string `json:"conditions"`
		}]{}, nil, "lacks the fields of a condition: use an adapter with Using"},
		{"a list of other structs", &kind[struct {
			Conditions []struct {
				Status string `json:"status"`
			} `json:"conditions"`
		}]{}, nil, "lacks the fields of a condition"},
		{"a map with integer keys", &kind[struct {
			Conditions map[int]loose `json:"conditions"`
		}]{}, nil, "not a list or map of conditions"},
		{"a string as the status", parse(`{"status": "fine"}`), nil, "status must be an object, got string: fix it"},
		{"a string as conditions", parse(`{"status": {"conditions": "fine"}}`), nil, "status.conditions must be a list or a map, got string"},
		{"an invalid path", parse(`{}`), []conditions.Option{conditions.At("status..x")}, `invalid path "status..x"`},
		{"a missing path", &corev1.Pod{}, []conditions.Option{conditions.At("spec.conditions")}, "has no field spec.conditions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := conditions.For(c.obj, c.opts...)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "conditions: ") {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if conditions.Is(c.obj, "Ready", metav1.ConditionUnknown, c.opts...) {
				t.Error("Is returned true for an object without conditions")
			}
		})
	}
}

// Set does not change a shallow copy that shares the list.
func TestSet_PassesCopyToAccessors(t *testing.T) {
	obj := &accessible{hidden: []metav1.Condition{{Type: "A", Status: "True", Reason: "R"}}}
	alias := obj.hidden
	setOf(t, obj).False("A", "R", "")
	equal(t, "status in the shared list", alias[0].Status, metav1.ConditionTrue)
	equal(t, "status in the object", obj.hidden[0].Status, metav1.ConditionFalse)
}

// A status that is changed and reverted before a write causes no transition, because the server has not stored the
// change.
func TestSet_TransitionTimeOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := &corev1.Pod{}
		time0 := now()
		setOf(t, pod).True("Ready", "Old", "")
		onServer := pod.DeepCopy()
		timeOf := func() metav1.Time { return pod.Status.Conditions[0].LastTransitionTime }

		<-time.After(time.Hour)
		s := setOf(t, pod)
		s.False("Ready", "There", "")
		s.True("Ready", "Old", "")
		equal(t, "time after reverting the status", timeOf(), time0)

		s.False("Ready", "There", "")
		setOf(t, pod, conditions.Since(onServer)).True("Ready", "Back", "")
		equal(t, "time after reverting the status with another set", timeOf(), time0)

		s = setOf(t, pod)
		s.False("Ready", "There", "")
		s.Rebase() // callers do this after a write
		if s.Changed() {
			t.Error("Changed returned true after Rebase")
		}
		<-time.After(time.Minute)
		s.True("Ready", "Old", "")
		equal(t, "time after reverting a written status", timeOf(), now())

		setOf(t, pod, conditions.Since(&corev1.ConfigMap{})).True("Ready", "Old", "") // ConfigMaps have no conditions
		equal(t, "time without a known state", timeOf(), now())
	})
}

// Outside of the status, each write increases the generation. Storing the generation would therefore cause another
// write.
func TestSet_NoGenerationOutsideOfTheStatus(t *testing.T) {
	for name, test := range map[string]struct {
		opts []conditions.Option
		want int64
	}{
		"the default path":           {nil, 7},
		"another path in the status": {[]conditions.Option{conditions.At("status.health.checks")}, 7},
		"in the spec":                {[]conditions.Option{conditions.At("spec.checks")}, 0},
		"without the subresource":    {[]conditions.Option{conditions.WithoutSubresource()}, 0},
	} {
		obj := &unstructured.Unstructured{Object: map[string]any{}}
		obj.SetGeneration(7)
		s, err := conditions.For(obj, test.opts...)
		if err != nil {
			t.Fatal(err)
		}
		s.True("Ready", "Fine", "")
		got, _ := s.Get("Ready")
		equal(t, name, got.ObservedGeneration, test.want)
		s.Set(metav1.Condition{Type: "Given", Status: metav1.ConditionTrue, Reason: "Fine", ObservedGeneration: 3})
		got, _ = s.Get("Given")
		equal(t, name+": given", got.ObservedGeneration, int64(3))
	}
}
