package kopftest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kopf-runtime/kopf-runtime/internal/explore"
)

// A WalkOption is a choice for [Walk].
type WalkOption func(*walk)

// WithSeed sets the seed of the random specs. Default: 1. The environment variable KOPFTEST_SEED takes precedence.
func WithSeed(seed uint64) WalkOption {
	return func(w *walk) { w.seed = seed }
}

// WithFilter restricts the random objects to those that pass: for rules of the kind that its schema does not have, and for CEL rules, which a cluster
// in memory does not check.
func WithFilter(valid func(obj *unstructured.Unstructured) bool) WalkOption {
	return func(w *walk) { w.valid = append(w.valid, valid) }
}

// Walk creates an object with a random spec, replaces the spec again and again by other ones, and deletes the object, in memory and in
// virtual time. The specs fit the schema of the first CustomResourceDefinition in the file: types, required fields, enums, bounds, lengths,
// formats and simple patterns. After each step, all objects, and what is outside, must be the same as after the creation of an object with that spec: it does not
// matter how a state was reached. After the deletion, they must be the same as before the creation.
//
// The scenario is that of [Check], without a Story. Ignore names what depends on the way, such as "status.resizes".
//
// Objects whose owners do not exist any more do not count, as the garbage collector of a cluster removes them.
//
// A failure shows the two specs, and the seed; KOPFTEST_SEED=17 runs the same walk again. The test must not be in a bubble of testing/synctest.
func Walk(t *testing.T, crd string, setup func() Scenario, steps int, opts ...WalkOption) {
	t.Helper()
	w := &walk{seed: 1, file: crd, steps: steps}
	for _, opt := range opts {
		opt(w)
	}
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if w.seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("kopftest: the variable %s must be a number: %v", seedVariable, err)
		}
	}
	if err := w.load(); err != nil {
		t.Fatalf("kopftest: %v", err)
	}
	if finding := w.run(t, setup); finding != "" {
		t.Errorf("kopftest: %s\nTo see it again: %s=%d go test -run '^%s$' .", finding, seedVariable, w.seed, t.Name())
	}
}

// seedVariable names the environment variable with the seed of a walk.
const seedVariable = "KOPFTEST_SEED"

// A walk goes from spec to spec.
type walk struct {
	seed  uint64
	file  string
	steps int
	valid []func(*unstructured.Unstructured) bool

	crd    *apiextensionsv1.CustomResourceDefinition
	schema *apiextensionsv1.JSONSchemaProps
	empty  *unstructured.Unstructured // without spec
}

// load reads the CRD.
func (w *walk) load() error {
	found := envtest.CRDInstallOptions{Paths: []string{w.file}, ErrorIfPathMissing: true}
	if err := envtest.ReadCRDFiles(&found); err != nil {
		return fmt.Errorf("reading the CRD (look at the path, which is relative to the folder of the test): %w", err)
	}
	if len(found.CRDs) == 0 {
		return fmt.Errorf("there is no CRD in %s", w.file)
	}
	w.crd = found.CRDs[0]
	i := slices.IndexFunc(w.crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Served && v.Schema != nil })
	if i < 0 || w.crd.Spec.Versions[i].Schema.OpenAPIV3Schema == nil {
		return fmt.Errorf("the CRD %s serves no version with a schema", w.crd.Name)
	}
	version := w.crd.Spec.Versions[i]
	w.schema = version.Schema.OpenAPIV3Schema
	w.empty = &unstructured.Unstructured{Object: map[string]any{}}
	w.empty.SetAPIVersion(w.crd.Spec.Group + "/" + version.Name)
	w.empty.SetKind(w.crd.Spec.Names.Kind)
	w.empty.SetName("walk")
	return nil
}

// tries is how many values are made until one is valid.
const tries = 1000

// objects makes the object in each step.
func (w *walk) objects(t *testing.T, scenario Scenario) (out []*unstructured.Unstructured) {
	t.Helper()
	given := scenario.Given
	given.Objects = nil
	cluster := w.given(given).cluster(t)
	generator := explore.NewGenerator(w.seed)
	var fields map[string]any
	var refused error
	for range tries {
		if len(out) == w.steps {
			return out
		}
		next := generator.Fields(w.schema)
		if fields != nil {
			next = generator.Vary(w.schema, fields)
		}
		obj := w.empty.DeepCopy()
		maps.Copy(obj.Object, runtime.DeepCopyJSON(next))
		cluster.setDefaultNamespace(obj)
		if refused = cluster.Client.Create(t.Context(), obj.DeepCopy(), client.DryRunAll); refused != nil && !apierrors.IsInvalid(refused) {
			t.Fatalf("kopftest: trying a %s: %v", obj.GetKind(), refused)
		}
		passes := func(valid func(*unstructured.Unstructured) bool) bool { return valid(obj.DeepCopy()) }
		if refused == nil && !slices.ContainsFunc(w.valid, func(v func(*unstructured.Unstructured) bool) bool { return !passes(v) }) {
			out, fields = append(out, obj), next
		}
	}
	t.Fatalf("kopftest: of %d random objects of the kind %s, %d were valid; the last refusal: %v", tries, w.empty.GetKind(), len(out), refused)
	return nil
}

// given has the CRD among those that are given.
func (w *walk) given(given Given) Given {
	if !slices.Contains(given.CRDs, w.file) {
		given.CRDs = append(slices.Clone(given.CRDs), w.file)
	}
	return given
}

// run compares the walk with creations, and returns the first difference.
func (w *walk) run(t *testing.T, setup func() Scenario) string {
	t.Helper()
	objects := w.objects(t, setup())
	story := []func(testing.TB, *Cluster){create(objects[0])}
	for _, obj := range objects[1:] {
		story = append(story, replace(obj))
	}
	story = append(story, func(t testing.TB, c *Cluster) { c.Delete(t, objects[0].DeepCopy()) })
	walked := w.runScenario(t, setup, story, "during the walk")
	for i, obj := range objects {
		switch {
		case i+1 < len(walked.Snapshots):
		case walked.Problem != "":
			return fmt.Sprintf("in step %d of the walk: %s%s", i+1, walked.Problem, describe(objects, i))
		default:
			return fmt.Sprintf("the walk has ended before step %d", i+1)
		}
		alone := w.runScenario(t, setup, story[:0:0], "", create(obj))
		if alone.Problem != "" || len(alone.Snapshots) < 2 {
			return fmt.Sprintf("after the creation: %s%s", alone.Problem, describe(objects[i:], 0))
		}
		if _, differs := alone.Snapshots[1].Compare(walked.Snapshots[i+1]); differs != "" {
			return fmt.Sprintf("in step %d of the walk, it is not as it is after a creation with the same spec: %s%s", i+1, differs, describe(objects, i))
		}
	}
	if walked.Problem != "" {
		return "after the deletion: " + walked.Problem
	}
	if _, differs := walked.Snapshots[0].Compare(walked.Snapshots[len(objects)+1]); differs != "" {
		return "the deletion has left something behind: " + differs
	}
	return ""
}

func (w *walk) runScenario(t *testing.T, setup func() Scenario, story []func(testing.TB, *Cluster), when string, more ...func(testing.TB, *Cluster)) *explore.Run {
	t.Helper()
	return runScenario(t, func() Scenario {
		scenario := setup()
		scenario.Given = w.given(scenario.Given)
		scenario.Steps = append(slices.Clone(story), more...)
		return scenario
	}, runOptions{when: when, waitBeforeSnapshot: true, collectGarbage: true}).run
}

func create(obj *unstructured.Unstructured) func(testing.TB, *Cluster) {
	return func(t testing.TB, c *Cluster) { c.Create(t, obj.DeepCopy()) }
}

// replace puts other fields into the place of those of an object, but for its metadata and status.
func replace(obj *unstructured.Unstructured) func(testing.TB, *Cluster) {
	return func(t testing.TB, c *Cluster) {
		Edit(t, c, obj.DeepCopy(), func(stored *unstructured.Unstructured) {
			for name := range stored.Object {
				if !slices.Contains(bookkeptFields, name) {
					delete(stored.Object, name)
				}
			}
			for name, value := range runtime.DeepCopyJSON(obj.Object) {
				if !slices.Contains(bookkeptFields, name) {
					stored.Object[name] = value
				}
			}
		})
	}
}

var bookkeptFields = []string{"apiVersion", "kind", "metadata", "status"}

// describe shows the spec of a step, and the one before.
func describe(objects []*unstructured.Unstructured, i int) string {
	text := ""
	if i > 0 {
		text = fmt.Sprintf("\nbefore: %s", fieldsOf(objects[i-1]))
	}
	return text + fmt.Sprintf("\nthen:   %s", fieldsOf(objects[i]))
}

func fieldsOf(obj *unstructured.Unstructured) string {
	fields := map[string]any{}
	for name, value := range obj.Object {
		if !slices.Contains(bookkeptFields, name) {
			fields[name] = value
		}
	}
	text, _ := json.Marshal(fields) // they were made of JSON values
	return string(text)
}
