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

// HaveHandled matches an object whose current state is handled: its essence equals the last-handled configuration, and no handler has a
// record. Status fields only count if the last-handled configuration contains them, because a handler watches them.
//
// HaveHandled reads status.kopf and the annotations of all operators with kopf or this library that have handled the object, with any
// prefix. If there are several last-handled configurations, all must equal the essence. Objects of an operator that doesn't store one, for
// example with only reconcile and delete handlers, never match. HaveHandled doesn't support other stores and baselines, such as
// [progress.Status] with a different field, [progress.IgnoringFields] or a [progress.Remote].
func HaveHandled() types.GomegaMatcher {
	return &objectMatcher{what: "to be handled in its present state", test: handled}
}

// HaveInProgress matches an object with handler records of a running cycle. With ids, exactly these handlers must have records. Records of
// sub-handlers are ignored. HaveInProgress reads the same data as [HaveHandled].
func HaveInProgress(ids ...string) types.GomegaMatcher {
	what := "to have handlers in progress"
	if len(ids) > 0 {
		what = fmt.Sprintf("to have in progress exactly %q", ids)
	}
	return &objectMatcher{what: what, test: func(obj client.Object) (bool, string) {
		found := inProgress(obj)
		if len(ids) == 0 {
			return len(found) > 0, "no handler is in progress"
		}
		for _, id := range ids {
			names := annotationNames(obj, id)
			if some := slices.DeleteFunc(slices.Clone(found), func(name string) bool { return slices.Contains(names, name) }); len(some) < len(found) {
				found = append(some, id)
			}
		}
		slices.Sort(found)
		return slices.Equal(found, slices.Sorted(slices.Values(ids))), fmt.Sprintf("the handlers in progress are %q", found)
	}}
}

// HaveFinalizer matches an object with all these finalizers. Without names, it matches an object with [kopf.DefaultFinalizer].
func HaveFinalizer(names ...string) types.GomegaMatcher {
	if len(names) == 0 {
		names = []string{kopf.DefaultFinalizer}
	}
	return &objectMatcher{what: "to have the finalizer " + strings.Join(names, ", "), test: func(obj client.Object) (bool, string) {
		lacks := func(name string) bool { return !hasFinalizer(obj, name) }
		return !slices.ContainsFunc(names, lacks), fmt.Sprintf("its finalizers are %q", obj.GetFinalizers())
	}}
}

// HaveCondition matches an object with a condition of this type and status. It is the same as [conditionstest.HaveCondition].
func HaveCondition(conditionType string, status metav1.ConditionStatus) *conditionstest.Matcher {
	return conditionstest.HaveCondition(conditionType, status)
}

// An objectMatcher is a Gomega matcher for objects.
type objectMatcher struct {
	what string
	test func(client.Object) (ok bool, why string)
	why  string
}

// Match implements types.GomegaMatcher.
func (m *objectMatcher) Match(actual any) (ok bool, err error) {
	obj, is := actual.(client.Object)
	if !is {
		return false, fmt.Errorf("expected a client.Object, got:\n%s", format.Object(actual, 1))
	}
	ok, m.why = m.test(obj)
	return ok, nil
}

// FailureMessage implements types.GomegaMatcher.
func (m *objectMatcher) FailureMessage(actual any) string {
	return fmt.Sprintf("Expected %s\n%s\nbut %s", nameOf(actual), m.what, m.why)
}

// NegatedFailureMessage implements types.GomegaMatcher.
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

// prefixesOf returns the prefixes of the annotations in which operators have stored their data. Stores with their own prefix write a
// marker.
func prefixesOf(obj client.Object) []string {
	prefixes := []string{progress.DefaultPrefix}
	for _, key := range slices.Sorted(maps.Keys(obj.GetAnnotations())) {
		if prefix, ok := strings.CutSuffix(key, markerSuffix); ok {
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes
}

const markerSuffix = "/kopf-managed"

// handled compares the last-handled configurations with the object's current state.
func handled(obj client.Object) (ok bool, why string) {
	if ids := inProgress(obj); len(ids) > 0 {
		return false, fmt.Sprintf("the handlers %q are in progress", ids)
	}
	for _, prefix := range prefixesOf(obj) {
		text := essence.WithDigestFallback(progress.AnnotationBaseline(prefix)).Fetch(obj)
		if text == nil {
			continue
		}
		changed, err := changedSince(text, obj)
		if err != nil {
			return false, err.Error()
		}
		if !changed.Empty() {
			return false, fmt.Sprintf("it has changed since it was handled (%s): %v", prefix, changed)
		}
		ok = true
	}
	if !ok {
		return false, "it has no last-handled configuration"
	}
	return true, ""
}

// changedSince returns the changes since the last-handled configuration. Only the status fields in that configuration count.
func changedSince(text []byte, obj client.Object) (diff.Diff, error) {
	shape := essence.Builder{Cleaners: []essence.Cleaner{progress.Smart()}}
	for _, prefix := range prefixesOf(obj) {
		shape.Cleaners = append(shape.Cleaners, progress.Annotations(prefix))
	}
	then, err := shape.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("read the last-handled configuration: %w", err)
	}
	content, err := patch.JSONTypedContent(obj)
	if err != nil {
		return nil, err
	}
	if status, ok := then["status"]; ok {
		shape.Fields = leaves(status, []string{"status"})
	}
	now := shape.Build(content)
	delete(then, essence.ConditionsKey)
	if _, isDigest := then[essence.DigestDocumentKey]; isDigest {
		return nil, errors.New("only a digest of the last-handled configuration is stored, because the object is large: this matcher cannot compare it")
	}
	return diff.Of(any(then), any(now)), nil
}

// leaves returns the paths of all fields without further fields below them.
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

// inProgress returns the ids of the handlers with records in status.kopf or in annotations, whose keys can be shortened ids.
func inProgress(obj client.Object) (ids []string) {
	content, err := patch.JSONTypedContent(obj)
	if err != nil {
		return []string{"unknown (encode object: " + err.Error() + ")"}
	}
	if kept, ok := diff.Lookup(content, "status", "kopf", "progress"); ok {
		records, _ := kept.(map[string]any)
		ids = slices.Collect(maps.Keys(records))
	}
	prefixes := prefixesOf(obj)
	for key, value := range obj.GetAnnotations() {
		prefix, id, _ := strings.Cut(key, "/")
		if slices.Contains(prefixes, prefix) && isRecord(value) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return slices.DeleteFunc(ids, func(id string) bool { // sub-handlers belong to their parents
		return slices.ContainsFunc(ids, func(parent string) bool {
			return strings.HasPrefix(id, parent+".") || strings.HasPrefix(id, parent+"/")
		})
	})
}

// annotationNames returns the names of the annotations with a handler's progress, without their prefix. They differ from the id if it is
// long or contains slashes.
func annotationNames(obj client.Object, id string) (names []string) {
	without := obj.DeepCopyObject().(client.Object)
	for _, prefix := range prefixesOf(obj) {
		if err := progress.Annotations(prefix).Purge(without, id); err != nil {
			return nil
		}
	}
	for key := range obj.GetAnnotations() {
		if _, left := without.GetAnnotations()[key]; !left {
			_, name, _ := strings.Cut(key, "/")
			names = append(names, name)
		}
	}
	return names
}

// isRecord reports whether an annotation is a handler's record, and not, for example, the last-handled configuration.
func isRecord(text string) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &fields) != nil {
		return false
	}
	_, ok := fields["started"]
	return ok
}
