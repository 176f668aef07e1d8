package explore

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestCompare_NamesTheFieldsOfTheMostSimilarObject(t *testing.T) {
	secret := func(name, password string, labels map[string]any) map[string]any {
		return map[string]any{
			"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"password": password},
			"metadata": map[string]any{"namespace": "default", "name": name, "labels": labels},
		}
	}
	labels := map[string]any{"role": "db", "tier": "gold"}
	expected := QuietState{State: NormalizeState([]map[string]any{secret("orders-1", "a", labels)}, nil)}
	found := QuietState{State: NormalizeState([]map[string]any{
		secret("orders-2", "b", map[string]any{"role": "web"}), secret("orders-3", "b", labels),
	}, nil)}

	g := NewWithT(t)
	kind, text := expected.Compare(found)
	g.Expect(kind).To(Equal("missing Secret default"))
	g.Expect(text).To(HavePrefix("Secret default/orders-1 is missing; the similar Secret default/orders-3 differs: "))
	g.Expect(text).To(And(ContainSubstring("data.password"), Not(ContainSubstring("metadata.name"))))
}

func TestCompare_NamesNoSimilarObjectOfAnotherKind(t *testing.T) {
	object := func(kind, name string) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"namespace": "default", "name": name}}
	}
	expected := QuietState{State: NormalizeState([]map[string]any{object("Secret", "one"), object("Secret", "two")}, nil)}
	found := QuietState{State: NormalizeState([]map[string]any{object("ConfigMap", "one"), object("Secret", "two")}, nil)}
	_, text := expected.Compare(found)
	NewWithT(t).Expect(text).To(Equal("Secret default/one is missing"))
}

// The data of operators is not compared, with any prefix. The annotations of users are.
func TestCompare_IgnoresTheAnnotationsOfOperators(t *testing.T) {
	object := func(annotations map[string]any) QuietState {
		return QuietState{State: NormalizeState([]map[string]any{{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": "default", "name": "one", "annotations": annotations},
		}}, nil)}
	}
	g := NewWithT(t)
	for _, stored := range []map[string]any{
		{"kopf.zalando.org/last-handled-configuration": "a"},
		{"kopf-runtime.dev/history": "a"},
		{"example.com/kopf-managed": "yes", "example.com/last-handled-configuration": "a", "example.com/a": "b"},
	} {
		kind, text := object(nil).Compare(object(stored))
		g.Expect(kind+text).To(BeEmpty(), "%v", stored)
	}
	kind, _ := object(nil).Compare(object(map[string]any{"example.com/a": "b"}))
	g.Expect(kind).NotTo(BeEmpty())
}

func widgetOf(generation int64, observed ...any) map[string]any {
	var list []any
	for i := 0; i < len(observed); i += 2 {
		list = append(list, map[string]any{"type": observed[i], "observedGeneration": observed[i+1], "lastTransitionTime": "now"})
	}
	return map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "status": map[string]any{"conditions": list},
		"metadata": map[string]any{"namespace": "default", "name": "one", "uid": "1", "generation": generation},
	}
}

// The numbers of generations can differ, but a status that describes the present generation without faults must describe it with them, too.
func TestCompare_ObservedGenerations(t *testing.T) {
	for name, test := range map[string]struct {
		expected, found map[string]any
		differs         string
	}{
		"both are of the present generation":       {widgetOf(2, "Ready", int64(2)), widgetOf(5, "Ready", int64(5)), ""},
		"both are of an older generation":          {widgetOf(2, "Ready", int64(1)), widgetOf(5, "Ready", int64(3)), ""},
		"only the expected one is outdated":        {widgetOf(2, "Ready", int64(1)), widgetOf(2, "Ready", int64(2)), ""},
		"only the found one is outdated":           {widgetOf(2, "Ready", int64(2)), widgetOf(3, "Ready", int64(2)), "older"},
		"the found one is newer than its object":   {widgetOf(2, "Ready", int64(2)), widgetOf(3, "Ready", int64(4)), "newer"},
		"a condition without a generation appears": {widgetOf(2), widgetOf(2, "Ready", int64(2)), "Ready"},
	} {
		t.Run(name, func(t *testing.T) {
			state := func(content map[string]any) QuietState {
				return QuietState{State: NormalizeState([]map[string]any{content}, nil)}
			}
			_, text := state(test.expected).Compare(state(test.found))
			if (text == "") != (test.differs == "") || !strings.Contains(text, test.differs) {
				t.Errorf("difference %q, want %q", text, test.differs)
			}
		})
	}
}

func TestOutdatedStatuses(t *testing.T) {
	own := func(content map[string]any) ObjectVersion {
		return ObjectVersion{"widgets default/one", content, true, false}
	}
	users := func(content map[string]any) ObjectVersion {
		return ObjectVersion{"widgets default/one", content, false, false}
	}
	for name, test := range map[string]struct {
		versions []ObjectVersion
		want     []string
	}{
		"the operator changes the object after the status": {
			[]ObjectVersion{users(widgetOf(1)), own(widgetOf(1, "Ready", int64(1))), own(widgetOf(2, "Ready", int64(1)))},
			[]string{"status.conditions[Ready].observedGeneration of widgets default/one is 1, but the operator itself has changed the object to generation 2"},
		},
		"and then updates the status": {
			[]ObjectVersion{users(widgetOf(1)), own(widgetOf(1, "Ready", int64(1))), own(widgetOf(2, "Ready", int64(1))), own(widgetOf(2, "Ready", int64(2)))}, nil,
		},
		"a user changes the object": {
			[]ObjectVersion{users(widgetOf(1)), own(widgetOf(1, "Ready", int64(1))), users(widgetOf(2, "Ready", int64(1)))}, nil,
		},
		"a user and then the operator change the object": {
			[]ObjectVersion{users(widgetOf(1)), own(widgetOf(1, "Ready", int64(1))), users(widgetOf(2, "Ready", int64(1))), own(widgetOf(3, "Ready", int64(1)))}, nil,
		},
		"another client has written the condition": {
			[]ObjectVersion{users(widgetOf(1)), users(widgetOf(1, "Ready", int64(1))), own(widgetOf(2, "Ready", int64(1)))}, nil,
		},
		"the object is deleted": {
			[]ObjectVersion{users(widgetOf(1)), own(widgetOf(1, "Ready", int64(1))), own(widgetOf(2, "Ready", int64(1))), {"widgets default/one", widgetOf(2), true, true}}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(OutdatedStatuses(test.versions)).To(Equal(test.want))
		})
	}
}
