package explore

import (
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
