package match_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kopf-runtime/kopf-runtime/internal/match"
)

type m = map[string]any

// Simple tests, as package filter creates them.
func present(value any) bool { return value != nil }
func absent(value any) bool  { return value == nil }
func never(any) bool         { return false }

func is(want any) match.Test { return func(value any) bool { return value == want } }

func labels(kv ...string) m      { return m{"metadata": m{"labels": texts(kv)}} }
func annotations(kv ...string) m { return m{"metadata": m{"annotations": texts(kv)}} }

func texts(kv []string) m {
	out := m{}
	for i := 0; i < len(kv); i += 2 {
		out[kv[i]] = kv[i+1]
	}
	return out
}

func label(name string, tests ...match.Test) match.Filters {
	return match.Filters{Labels: []match.KeyFilter{{Name: name, Tests: tests}}}
}

func annotation(name string, tests ...match.Test) match.Filters {
	return match.Filters{Annotations: []match.KeyFilter{{Name: name, Tests: tests}}}
}

func field(path string, tests ...match.Test) match.Filters {
	return match.Filters{Field: &match.FieldFilter{Path: strings.Split(path, "."), Tests: tests}}
}

func spec(key string, value any) m { return m{"spec": m{key: value}} }

func TestMatchObject(t *testing.T) {
	none := m{}
	size := func(value any) m { return spec("size", value) }
	caused := func(before, after m) match.Input {
		return match.Input{Object: after, HasCause: true, Old: before, New: after}
	}
	plain := func(content m) match.Input { return match.Input{Object: content} }
	ownedBy := func(refs ...any) m { return m{"metadata": m{"ownerReferences": refs}} }
	deployment := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	pod := schema.GroupKind{Kind: "Pod"}
	owners := func(kinds ...schema.GroupKind) match.Filters { return match.Filters{Owners: kinds} }

	for _, test := range []struct {
		name    string
		filters match.Filters
		subject match.Input
		want    bool
	}{
		{"FLT-01 no filters", match.Filters{}, plain(labels("a", "b")), true},
		{"FLT-01 no filters, no object", match.Filters{}, match.Input{}, true},
		{
			"FLT-01 all filters match",
			match.Filters{
				Labels:      []match.KeyFilter{{Name: "a", Tests: []match.Test{is("b")}}, {Name: "c", Tests: []match.Test{present}}},
				Annotations: []match.KeyFilter{{Name: "d", Tests: []match.Test{absent}}},
				Field:       &match.FieldFilter{Path: []string{"spec"}},
			},
			plain(m{"metadata": m{"labels": m{"a": "b", "c": ""}}, "spec": m{}}), true,
		},
		{
			"FLT-01 one filter does not match",
			match.Filters{
				Labels:      []match.KeyFilter{{Name: "a", Tests: []match.Test{is("b")}}, {Name: "c", Tests: []match.Test{present}}},
				Annotations: []match.KeyFilter{{Name: "d", Tests: []match.Test{absent}}},
				Field:       &match.FieldFilter{Path: []string{"spec"}},
			},
			plain(m{"metadata": m{"labels": m{"a": "b"}}, "spec": m{}}), false,
		},
		{"FLT-01 all tests of one key pass", label("a", present, is("b")), plain(labels("a", "b")), true},
		{"FLT-01 one test of a key fails", label("a", present, is("c")), plain(labels("a", "b")), false},

		{"FLT-02 a label with the value", label("a", is("b")), plain(labels("a", "b")), true},
		{"FLT-02 a label with another value", label("a", is("b")), plain(labels("a", "B")), false},
		{"FLT-02 another label", label("a", is("b")), plain(labels("b", "b")), false},
		{"FLT-02 no labels at all", label("a", is("b")), plain(none), false},
		{"FLT-02 PRESENT matches an empty value", label("a", present), plain(labels("a", "")), true},
		{"FLT-02 PRESENT does not match an absent key", label("a", present), plain(labels("b", "")), false},
		{"FLT-02 ABSENT", label("a", absent), plain(labels("b", "")), true},
		{"FLT-02 ABSENT matches without any labels", label("a", absent), plain(none), true},
		{"FLT-02 ABSENT does not match an empty value", label("a", absent), plain(labels("a", "")), false},
		{"FLT-02 a label filter ignores annotations", label("a", present), plain(annotations("a", "b")), false},
		{"FLT-02 an annotation with the value", annotation("example.com/a", is("b")), plain(annotations("example.com/a", "b")), true},
		{"FLT-02 an annotation filter ignores labels", annotation("a", present), plain(labels("a", "b")), false},

		{
			"FLT-03 labels of the present object", label("a", present),
			match.Input{Object: labels("a", "b"), HasCause: true, Old: none, New: none}, true,
		},
		{
			"FLT-03 labels of the essences do not count", label("a", present),
			match.Input{Object: none, HasCause: true, Old: labels("a", "b"), New: labels("a", "b")}, false,
		},
		{
			"FLT-03 annotations of the present object", annotation("a", present),
			match.Input{Object: none, HasCause: true, Old: annotations("a", "b"), New: annotations("a", "b")}, false,
		},

		{"FLT-04 a present field", field("spec.size"), plain(size(int64(0))), true},
		{"FLT-04 an absent field", field("spec.size"), plain(none), false},
		{"FLT-04 a null field is absent (ESS-24)", field("spec.size"), plain(size(nil)), false},
		{"FLT-04 the parent is not a map", field("spec.size.x"), plain(size("x")), false},
		{"FLT-04 a removed field", field("spec.size"), caused(size(int64(1)), none), true},
		{"FLT-04 an added field", field("spec.size"), caused(none, size(int64(1))), true},
		{"FLT-04 a field of a new object", field("spec.size"), caused(nil, size(int64(1))), true},
		{"FLT-04 a field that is absent before and after", field("spec.size"), caused(none, none), false},

		{"FLT-05 without a cause, the present value", field("spec.size", is(int64(1))), plain(size(int64(1))), true},
		{
			"FLT-05 without a cause, the old value does not count", field("spec.size", is(int64(1))),
			match.Input{Object: size(int64(2)), Old: size(int64(1)), New: size(int64(1))}, false,
		},
		{"FLT-05 the new value", field("spec.size", is(int64(2))), caused(size(int64(1)), size(int64(2))), true},
		{"FLT-05 the old value", field("spec.size", is(int64(1))), caused(size(int64(1)), size(int64(2))), true},
		{"FLT-05 neither the old nor the new value", field("spec.size", is(int64(3))), caused(size(int64(1)), size(int64(2))), false},
		{"FLT-05 all tests match the same value", field("spec.size", present, is(int64(1))), caused(size(int64(1)), none), true},
		{
			"FLT-05 one test matches the old value, the other the new one", field("spec.size", is(int64(1)), is(int64(2))),
			caused(size(int64(1)), size(int64(2))), false,
		},
		{"FLT-05 ABSENT before", field("spec.size", absent), caused(none, size(int64(1))), true},
		{"FLT-05 ABSENT after", field("spec.size", absent), caused(size(int64(1)), none), true},
		{"FLT-05 ABSENT, present before and after", field("spec.size", absent), caused(size(int64(1)), size(int64(1))), false},
		{
			"FLT-05 B-01 a later edit does not count", field("spec.size", is(int64(3))),
			match.Input{Object: size(int64(3)), HasCause: true, Old: size(int64(1)), New: size(int64(2))}, false,
		},

		{
			"FLT-12 From and To are not applied",
			match.Filters{Field: &match.FieldFilter{Path: []string{"spec", "size"}, From: []match.Test{never}, To: []match.Test{never}}},
			caused(size(int64(1)), size(int64(1))), true,
		},

		{"OwnedBy: an owner of the kind", owners(deployment), plain(ownedBy(m{"apiVersion": "apps/v1", "kind": "Deployment"})), true},
		{"OwnedBy: of any version", owners(deployment), plain(ownedBy(m{"apiVersion": "apps/v2beta1", "kind": "Deployment"})), true},
		{"OwnedBy: of another group", owners(deployment), plain(ownedBy(m{"apiVersion": "v1", "kind": "Deployment"})), false},
		{"OwnedBy: of another kind", owners(deployment), plain(ownedBy(m{"apiVersion": "apps/v1", "kind": "ReplicaSet"})), false},
		{"OwnedBy: of the core group", owners(pod), plain(ownedBy(m{"apiVersion": "v1", "kind": "Pod"})), true},
		{
			"OwnedBy: one of several owners", owners(pod),
			plain(ownedBy(m{"apiVersion": "apps/v1", "kind": "Deployment"}, m{"apiVersion": "v1", "kind": "Pod"})), true,
		},
		{"OwnedBy: one of several kinds", owners(deployment, pod), plain(ownedBy(m{"apiVersion": "v1", "kind": "Pod"})), true},
		{"OwnedBy: no owner", owners(pod), plain(none), false},
		{"OwnedBy: an invalid reference", owners(pod), plain(ownedBy("x", m{"apiVersion": "a/b/c", "kind": "Pod"})), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			refusal := test.filters.MatchObject(test.subject)
			got, why := refusal.Accepts(), refusal.String()
			if got != test.want {
				t.Errorf("MatchObject = %t (%s), want %t", got, why, test.want)
			}
			if (why == "") != got {
				t.Errorf("MatchObject = %t with the explanation %q, want one only for a mismatch", got, why)
			}
		})
	}
}

// FLT-01: the order is labels, annotations, owners, field. The first mismatch ends the tests.
func TestMatchObject_StopsAtFirstMismatch(t *testing.T) {
	var tested []string
	test := func(name string, result bool) []match.Test {
		return []match.Test{func(any) bool { tested = append(tested, name); return result }}
	}
	filters := func(failing string) match.Filters {
		return match.Filters{
			Labels:      []match.KeyFilter{{Name: "a", Tests: test("label", failing != "label")}},
			Annotations: []match.KeyFilter{{Name: "a", Tests: test("annotation", failing != "annotation")}},
			Field:       &match.FieldFilter{Path: []string{"spec"}, Tests: test("field", failing != "field")},
		}
	}
	for failing, want := range map[string]string{
		"label": "label", "annotation": "label annotation", "field": "label annotation field", "none": "label annotation field",
	} {
		t.Run("FLT-01 failing: "+failing, func(t *testing.T) {
			tested = nil
			refusal := filters(failing).MatchObject(match.Input{Object: m{}})
			ok, why := refusal.Accepts(), refusal.String()
			if got := strings.Join(tested, " "); got != want {
				t.Errorf("tested %q, want %q", got, want)
			}
			if ok != (failing == "none") || !ok && !strings.Contains(why, map[string]string{
				"label": `metadata.labels["a"]`, "annotation": `metadata.annotations["a"]`, "field": "field spec",
			}[failing]) {
				t.Errorf("MatchObject = %t with the explanation %q, want an explanation with the failing filter %s", ok, why, failing)
			}
		})
	}
}

func TestMatchCause_Fields(t *testing.T) {
	size := func(value any) m { return spec("size", value) }
	change := func(from, to []match.Test) match.Filters {
		return match.Filters{Field: &match.FieldFilter{Path: []string{"spec", "size"}, From: from, To: to}}
	}
	tests := func(all ...match.Test) []match.Test { return all }
	update := match.Cause{Reason: "update"}
	onUpdate := func(f match.Filters) match.Criteria { return match.Criteria{Reasons: []string{"update"}, Filters: f} }
	onField := func(f match.Filters) match.Criteria { return match.Criteria{AnyReason: true, Filters: f} }
	one, two := int64(1), int64(2)

	for _, test := range []struct {
		name     string
		criteria match.Criteria
		cause    match.Cause
		old, new m
		want     bool
	}{
		{"HND-16 an update without a field", onUpdate(match.Filters{}), update, size(one), size(one), true},
		{"HND-16 FLT-07 an update of the field", onUpdate(field("spec.size")), update, size(one), size(two), true},
		{"HND-16 FLT-07 an update of another field", onUpdate(field("spec.size")), update, size(one), m{"spec": m{"size": one, "x": one}}, false},
		{"FLT-07 ESS-23 the same number", onUpdate(field("spec.size")), update, size(one), size(1.0), false},
		{"FLT-07 the field is added", onUpdate(field("spec.size")), update, m{}, size(one), true},
		{"FLT-07 the field is removed", onUpdate(field("spec.size")), update, size(one), m{}, true},
		{"FLT-07 a nested field changes", onUpdate(field("spec")), update, size(one), size(two), true},
		{"FLT-07 absent before and after", onUpdate(field("spec.size")), update, m{}, spec("x", one), false},

		{"FLT-08 from", onUpdate(change(tests(is(one)), nil)), update, size(one), size(two), true},
		{"FLT-08 from another value", onUpdate(change(tests(is(two)), nil)), update, size(one), size(two), false},
		{"FLT-08 to", onUpdate(change(nil, tests(is(two)))), update, size(one), size(two), true},
		{"FLT-08 to another value", onUpdate(change(nil, tests(is(one)))), update, size(one), size(two), false},
		{"FLT-08 from and to", onUpdate(change(tests(is(one)), tests(is(two)))), update, size(one), size(two), true},
		{"FLT-08 From and To must both pass", onUpdate(change(tests(is(one)), tests(is(one)))), update, size(one), size(two), false},
		{"FLT-08 from ABSENT", onUpdate(change(tests(absent), nil)), update, m{}, size(two), true},
		{"FLT-08 to ABSENT", onUpdate(change(nil, tests(absent))), update, size(one), m{}, true},
		{"FLT-08 to PRESENT", onUpdate(change(nil, tests(present))), update, size(one), m{}, false},
		{"FLT-07 FLT-08 from and to, but unchanged", onUpdate(change(tests(is(one)), tests(is(one)))), update, size(one), size(one), false},

		{"HND-17 a creation with the field", onField(field("spec.size")), match.Cause{Reason: "create"}, nil, size(one), true},
		{"HND-17 a creation without the field", onField(field("spec.size")), match.Cause{Reason: "create"}, nil, m{}, false},
		{"HND-17 an update of the field", onField(field("spec.size")), update, size(one), size(two), true},
		{"HND-17 an update of another field", onField(field("spec.size")), update, size(one), size(one), false},
		{"HND-17 a deletion after a change of the field", onField(field("spec.size")), match.Cause{Reason: "delete", Deleting: true}, size(one), size(two), true},
		{"HND-17 a deletion without a change of the field", onField(field("spec.size")), match.Cause{Reason: "delete", Deleting: true}, size(one), size(one), false},
		{"HND-17 a resume", onField(field("spec.size")), match.Cause{Reason: "resume", Initial: true}, size(one), size(one), false},
		{"HND-17 FLT-08 a creation, from another value", onField(change(tests(present), nil)), match.Cause{Reason: "create"}, nil, size(one), false},
		{"HND-17 FLT-08 a creation, from ABSENT", onField(change(tests(absent), nil)), match.Cause{Reason: "create"}, nil, size(one), true},

		{"HND-16 a creation without a change of the field", match.Criteria{Reasons: []string{"create"}, Filters: field("spec.size")}, match.Cause{Reason: "create"}, size(one), size(one), true},
		{"HND-16 a deletion without a change of the field", match.Criteria{Reasons: []string{"delete"}, Filters: field("spec.size")}, match.Cause{Reason: "delete", Deleting: true}, size(one), size(one), true},
		{"HND-18 a resume without a change of the field", match.Criteria{Reasons: []string{"resume"}, Filters: field("spec.size")}, match.Cause{Reason: "resume", Initial: true}, size(one), size(one), true},
		{"HND-18 CAUSE-23 a resume handler at an update of another field", match.Criteria{Reasons: []string{"resume"}, Filters: field("spec.size")}, match.Cause{Reason: "update", Initial: true}, size(one), size(one), true},
		{"HND-16 a create and update handler at an update of another field", match.Criteria{Reasons: []string{"create", "update"}, Filters: field("spec.size")}, update, size(one), size(one), false},
		{"FLT-13 another reason", match.Criteria{Reasons: []string{"create"}, Filters: field("spec.size")}, update, size(one), size(two), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			refusal := test.criteria.MatchCause(test.cause, match.Input{Object: test.new, HasCause: true, Old: test.old, New: test.new})
			got, why := refusal.Accepts(), refusal.String()
			if got != test.want {
				t.Errorf("MatchCause = %t (%s), want %t", got, why, test.want)
			}
			if (why == "") != got {
				t.Errorf("MatchCause = %t with the explanation %q, want one only for a mismatch", got, why)
			}
		})
	}
}

// If only a digest of the old state is known, the field may have been present, and may have changed. A handler is not called for an old value that is unknown.
func TestMatch_UnknownOldState(t *testing.T) {
	path := []string{"spec", "size"}
	one := int64(1)
	filter := func(f match.FieldFilter) match.Criteria {
		f.Path = path
		return match.Criteria{AnyReason: true, Filters: match.Filters{Field: &f}}
	}
	for name, test := range map[string]struct {
		criteria match.Criteria
		new      m
		want     bool
	}{
		"the field is present":    {filter(match.FieldFilter{}), spec("size", one), true},
		"the field is absent":     {filter(match.FieldFilter{}), m{}, true},
		"the value matches":       {filter(match.FieldFilter{Tests: []match.Test{is(one)}}), spec("size", one), true},
		"the value does not":      {filter(match.FieldFilter{Tests: []match.Test{is(int64(2))}}), spec("size", one), false},
		"to the value":            {filter(match.FieldFilter{To: []match.Test{is(one)}}), spec("size", one), true},
		"to another value":        {filter(match.FieldFilter{To: []match.Test{is(int64(2))}}), spec("size", one), false},
		"from a value":            {filter(match.FieldFilter{From: []match.Test{is(one)}}), spec("size", int64(2)), false},
		"from absent":             {filter(match.FieldFilter{From: []match.Test{absent}}), spec("size", one), false},
		"without a field":         {match.Criteria{AnyReason: true}, m{}, true},
		"of a daemon or an event": {filter(match.FieldFilter{}), m{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			input := match.Input{Object: test.new, HasCause: true, New: test.new, OldUnknown: true}
			if strings.HasPrefix(name, "of a daemon") {
				input = match.Input{Object: test.new}
			}
			got := test.criteria.MatchObject(input).Accepts() && test.criteria.MatchCause(match.Cause{Reason: "update"}, input).Accepts()
			if got != test.want {
				t.Errorf("matches = %t, want %t", got, test.want)
			}
		})
	}
}

// The explanations name the field.
func TestMatchCause_ExplainsFieldMismatch(t *testing.T) {
	criteria := match.Criteria{Reasons: []string{"update"}, Filters: match.Filters{Field: &match.FieldFilter{
		Path: []string{"spec", "size"}, From: []match.Test{is(int64(1))}, To: []match.Test{is(int64(2))},
	}}}
	for _, test := range []struct {
		name     string
		old, new any
		want     string
	}{
		{"FLT-07 unchanged", int64(1), int64(1), "spec.size has not changed"},
		{"FLT-08 from", int64(3), int64(2), "spec.size has changed from"},
		{"FLT-08 to", int64(1), int64(3), "spec.size has changed to"},
	} {
		t.Run(test.name, func(t *testing.T) {
			subject := match.Input{HasCause: true, Old: spec("size", test.old), New: spec("size", test.new)}
			if why := criteria.MatchCause(match.Cause{Reason: "update"}, subject).String(); !strings.Contains(why, test.want) {
				t.Errorf("explanation = %q, want it to contain %q", why, test.want)
			}
		})
	}
}
