package conditions_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
)

// kstatusOf returns the status of an unknown kind by the rules of kstatus, which kpt, Flux, Argo CD and helm --wait
// use.
func kstatusOf(u *unstructured.Unstructured) string {
	if u.GetDeletionTimestamp() != nil {
		return "Terminating"
	}
	observed, has, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	if has && observed != u.GetGeneration() {
		return "InProgress"
	}
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	is := func(conditionType, status string) bool {
		for _, item := range list {
			if c, ok := item.(map[string]any); ok && c["type"] == conditionType {
				return c["status"] == status
			}
		}
		return false
	}
	switch {
	case is("Reconciling", "True"):
		return "InProgress"
	case is("Stalled", "True"):
		return "Failed"
	case is("Ready", "False"), is("Ready", "Unknown"):
		return "InProgress"
	}
	return "Current"
}

// kubectlWaitEnds reports whether kubectl wait --for=condition=<type>[=<status>] would end.
func kubectlWaitEnds(u *unstructured.Unstructured, conditionType, status string) bool {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range list {
		c, ok := item.(map[string]any)
		if !ok || !strings.EqualFold(c["type"].(string), conditionType) {
			continue
		}
		if observed, has := c["observedGeneration"].(int64); has && observed < u.GetGeneration() {
			return false
		}
		return strings.EqualFold(c["status"].(string), status)
	}
	return false
}

// The test compares the kstatus status over the lifetime of an object.
func TestSet_StatusForKstatus(t *testing.T) {
	u := parse(`{"metadata": {"generation": 1}, "spec": {}}`)
	root := conditions.Root{Of: []string{"Synced"}, Fresh: true}
	for _, step := range []struct {
		name     string
		do       func(s *conditions.Set)
		kstatus  string
		ready    bool
		notReady bool
	}{
		{"declared at the first reconcile", func(s *conditions.Set) { s.Declare("Ready", "Synced"); s.Summarize(root) }, "InProgress", false, false},
		{"failing", func(s *conditions.Set) { s.False("Synced", "Refused", "connection refused"); s.Summarize(root) }, "InProgress", false, true},
		{"failed permanently", func(s *conditions.Set) { s.True("Stalled", "BadSpec", "size is negative") }, "Failed", false, true},
		{"done", func(s *conditions.Set) { s.Remove("Stalled"); s.True("Synced", "Done", ""); s.Summarize(root) }, "Current", true, false},
		{"edited, not reconciled", func(*conditions.Set) { u.SetGeneration(2) }, "Current", false, false},
		{"reconciled", func(s *conditions.Set) { s.Summarize(root) }, "InProgress", false, false},
		{"done again", func(s *conditions.Set) { s.True("Synced", "Done", ""); s.Summarize(root) }, "Current", true, false},
		{"working", func(s *conditions.Set) { s.True("Reconciling", "Resizing", "") }, "InProgress", true, false},
	} {
		s := setOf(t, u)
		step.do(s)
		must(t, s.Err())
		equal(t, step.name, kstatusOf(u), step.kstatus)
		equal(t, step.name+": kubectl wait --for=condition=Ready", kubectlWaitEnds(u, "ready", "true"), step.ready)
		equal(t, step.name+": kubectl wait --for=condition=Ready=False", kubectlWaitEnds(u, "Ready", "False"), step.notReady)
	}
	if !conditions.Is(u, "Synced", metav1.ConditionTrue) {
		t.Error("Synced is not True after the last step")
	}
}
