package operator_test

import (
	"errors"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
)

func TestSet(t *testing.T) {
	var s operator.Set[string]
	expect := func(want ...string) {
		t.Helper()
		if got := s.All(); !slices.Equal(got, want) {
			t.Errorf("the set contains %q, want %q", got, want)
		}
	}
	expect()
	removeFirst := s.Add("a", "b")
	before := s.All()
	removeSecond := s.Add("c")
	expect("a", "b", "c")
	removeFirst()
	removeFirst()
	expect("c")
	if !slices.Equal(before, []string{"a", "b"}) {
		t.Errorf("an earlier result has changed to %q", before)
	}
	removeSecond()
	expect()
}

func TestReserve(t *testing.T) {
	var one, other struct{ manager.Manager }
	of := func(mgr manager.Manager, value string) operator.Reservation {
		return operator.Reservation{Manager: mgr, Value: value}
	}
	release, taken := operator.Reserve(of(&one, "a"), of(&one, "b"))
	if len(taken) > 0 {
		t.Fatalf("taken: %v", taken)
	}
	if _, taken := operator.Reserve(of(&one, "c"), of(&one, "b")); len(taken) != 1 || taken[0].Value != "b" {
		t.Errorf("taken: %v, want only b", taken)
	}
	for _, free := range []operator.Reservation{of(&one, "c"), of(&other, "a")} {
		release, taken := operator.Reserve(free)
		if len(taken) > 0 {
			t.Errorf("%q is taken", free.Value)
			continue
		}
		release()
	}
	release()
	if release, taken = operator.Reserve(of(&one, "a")); len(taken) > 0 {
		t.Error("a is taken after its release")
	} else {
		release()
	}
}

// Each part answers for itself. Parts without an answer are left out.
func TestParts_AreAsked(t *testing.T) {
	parts := []operator.Part{
		{
			Name:     "a",
			Check:    func(kinds []engine.Kind) []error { return []error{errors.New(kinds[0].Name)} },
			Rights:   func(namespace string) []rbac.Need { return []rbac.Need{{Resource: "a", Namespace: namespace}} },
			NotReady: func() []error { return []error{errors.New("not ready"), nil} },
		},
		{Name: "b"},
		{Name: "c", Rights: func(string) []rbac.Need { return []rbac.Need{{Resource: "c"}} }},
	}
	if errs := operator.Check(parts, []engine.Kind{{Name: "mistake"}}); len(errs) != 1 || errs[0].Error() != "mistake" {
		t.Errorf("Check returned %v", errs)
	}
	if needs := operator.Rights(parts, "ns"); len(needs) != 2 || needs[0].Namespace != "ns" || needs[1].Resource != "c" {
		t.Errorf("Rights returned %v", needs)
	}
	if err := operator.NotReady(parts); err == nil || err.Error() != "not ready" {
		t.Errorf("NotReady returned %v", err)
	}
	if err := operator.NotReady(parts[1:]); err != nil {
		t.Errorf("NotReady returned %v", err)
	}
}
