package kopftest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onsi/gomega/format"
	"github.com/onsi/gomega/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions/conditionstest"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// HaveHandled matches an object that an operator is done with: as it is now, it was handled, and nothing is in progress.
// Of its status, changes of those fields count that handlers are for, and that it had when it was handled.
// It looks at kopf's annotations, and at status.kopf, which is where operators without WithProgress and WithBaseline
// keep what they know.
func HaveHandled() types.GomegaMatcher {
	return &objectMatcher{what: "to have been handled as it is", test: handled}
}

// HaveInProgress matches an object on which handlers have begun with something and are not done. With ids, exactly those,
// without their sub-handlers.
func HaveInProgress(ids ...string) types.GomegaMatcher {
	what := "to have handlers in progress"
	if len(ids) > 0 {
		what = fmt.Sprintf("to have in progress exactly %q", ids)
	}
	return &objectMatcher{what: what, test: func(obj client.Object) (bool, string) {
		found := inProgress(obj)
		if len(ids) == 0 {
			return len(found) > 0, "nothing is in progress"
		}
		for _, id := range ids {
			names := annotationNames(obj, id)
			if some := slices.DeleteFunc(slices.Clone(found), func(name string) bool { return slices.Contains(names, name) }); len(some) < len(found) {
				found = append(some, id)
			}
		}
		slices.Sort(found)
		return slices.Equal(found, slices.Sorted(slices.Values(ids))), fmt.Sprintf("in progress are %q", found)
	}}
}

// HaveFinalizer matches an object with all these finalizers. Without a name, with that of kopf.
func HaveFinalizer(names ...string) types.GomegaMatcher {
	if len(names) == 0 {
		names = []string{kopf.DefaultFinalizer}
	}
	return &objectMatcher{what: "to have the finalizer " + strings.Join(names, ", "), test: func(obj client.Object) (bool, string) {
		lacks := func(name string) bool { return !hasFinalizer(obj, name) }
		return !slices.ContainsFunc(names, lacks), fmt.Sprintf("its finalizers are %q", obj.GetFinalizers())
	}}
}

// HaveCondition matches what has a condition of a type, with a status: see [conditionstest.HaveCondition], whose matcher it is.
func HaveCondition(conditionType string, status metav1.ConditionStatus) *conditionstest.Matcher {
	return conditionstest.HaveCondition(conditionType, status)
}

// An objectMatcher looks at an object.
type objectMatcher struct {
	what string
	test func(client.Object) (ok bool, why string)
	why  string
}

// Match makes it a matcher of gomega.
func (m *objectMatcher) Match(actual any) (ok bool, err error) {
	obj, is := actual.(client.Object)
	if !is {
		return false, fmt.Errorf("an object was expected, a client.Object, and this is:\n%s", format.Object(actual, 1))
	}
	ok, m.why = m.test(obj)
	return ok, nil
}

// FailureMessage makes it a matcher of gomega.
func (m *objectMatcher) FailureMessage(actual any) string {
	return fmt.Sprintf("Expected %s\n%s\nbut %s", nameOf(actual), m.what, m.why)
}

// NegatedFailureMessage makes it a matcher of gomega.
func (m *objectMatcher) NegatedFailureMessage(actual any) string {
	return fmt.Sprintf("Expected %s\nnot %s", nameOf(actual), m.what)
}

func nameOf(actual any) string {
	obj, ok := actual.(client.Object)
	if !ok {
		return format.Object(actual, 1)
	}
	return fmt.Sprintf("%T %s", obj, client.ObjectKeyFromObject(obj))
}

var baseline = essence.WithDigests(progress.AnnotationBaseline(""))

// handled compares the baseline to the object as it is.
func handled(obj client.Object) (ok bool, why string) {
	text := baseline.Fetch(obj)
	if text == nil {
		return false, "it was never handled"
	}
	if ids := inProgress(obj); len(ids) > 0 {
		return false, fmt.Sprintf("in progress are %q", ids)
	}
	changed, err := changedSince(text, obj)
	if err != nil {
		return false, err.Error()
	}
	if !changed.Empty() {
		return false, fmt.Sprintf("it has changed since: %v", changed)
	}
	return true, ""
}

// changedSince is what has become of what was handled. Of the status, those fields count that are in the baseline: handlers are for them.
func changedSince(text []byte, obj client.Object) (diff.Diff, error) {
	shape := essence.Builder{Cleaners: cleaners}
	then, err := shape.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("what was last handled cannot be read: %w", err)
	}
	content, err := patch.NormalizedContent(obj)
	if err != nil {
		return nil, err
	}
	if status, ok := then["status"]; ok {
		shape.Fields = leaves(status, []string{"status"})
	}
	now := shape.Build(content)
	delete(then, essence.ConditionsKey)
	if _, isDigest := then[essence.DigestKey]; isDigest {
		return nil, errors.New("it is too large for what was last handled to be kept on it: this matcher cannot tell")
	}
	return diff.Of(any(then), any(now)), nil
}

// leaves are the paths of the fields of a document that have no fields themselves.
func leaves(value any, path []string) (paths [][]string) {
	fields, _ := value.(map[string]any)
	for key, inner := range fields {
		paths = append(paths, leaves(inner, append(slices.Clone(path), key))...)
	}
	if len(fields) == 0 {
		return [][]string{path}
	}
	return paths
}

var cleaners = []essence.Cleaner{progress.Smart(), baseline, progress.Pin(baseline.Baseline)}

// inProgress are the ids, as far as they can be told from the keys, of the handlers with records.
func inProgress(obj client.Object) (ids []string) {
	content, err := patch.NormalizedContent(obj)
	if err != nil {
		return []string{"? (it has no JSON form: " + err.Error() + ")"}
	}
	if kept, ok := diff.Lookup(content, "status", "kopf", "progress"); ok {
		records, _ := kept.(map[string]any)
		ids = slices.Collect(maps.Keys(records))
	}
	for key, value := range obj.GetAnnotations() {
		id, ours := strings.CutPrefix(key, progress.DefaultPrefix+"/")
		if ours && isRecord(value) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return slices.DeleteFunc(ids, func(id string) bool { // those of sub-handlers are its parent's business
		return slices.ContainsFunc(ids, func(parent string) bool {
			return strings.HasPrefix(id, parent+".") || strings.HasPrefix(id, parent+"/")
		})
	})
}

// annotationNames returns the names of the annotations with the progress of a handler, without their prefix. They differ from
// its id if that has slashes or is long.
func annotationNames(obj client.Object, id string) (names []string) {
	without := obj.DeepCopyObject().(client.Object)
	if err := progress.Annotations("").Purge(without, id); err != nil {
		return nil
	}
	for key := range obj.GetAnnotations() {
		if _, left := without.GetAnnotations()[key]; !left {
			names = append(names, strings.TrimPrefix(key, progress.DefaultPrefix+"/"))
		}
	}
	return names
}

// isRecord tells the progress of a handler from other notes, such as what was last handled, by its own fields.
func isRecord(text string) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &fields) != nil {
		return false
	}
	_, ok := fields["started"]
	return ok
}
