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

// A WalkOption configures [Walk].
type WalkOption func(*walk)

// WithSeed sets the seed of the random specs. Default: 1. The environment variable KOPFTEST_SEED takes precedence.
func WithSeed(seed uint64) WalkOption {
	return func(w *walk) { w.seed = seed }
}

// WithFilter makes Walk only use random objects for which valid returns true. Use it for rules that aren't in the schema, and for CEL
// rules, which a cluster in memory doesn't check.
func WithFilter(valid func(obj *unstructured.Unstructured) bool) WalkOption {
	return func(w *walk) { w.valid = append(w.valid, valid) }
}

// Walk tests that the state for a spec doesn't depend on earlier specs. In memory and in virtual time, it creates an object with a random
// spec, replaces the spec with other random ones, and deletes the object. The parameter steps is the number of specs and must be positive.
// After each step, all objects and the external state must be the same as if the object had been created with this spec. After the
// deletion, they must be the same as before the creation.
//
// The specs match the schema of the first CustomResourceDefinition in the file crd, in its first served version with a schema. Walk
// considers types, required fields, enums, bounds, lengths, formats and simple patterns.
//
// The function setup must return a new Scenario for each run, as for [Check]. Its Steps are ignored. List fields that depend on earlier
// specs, such as "status.resizes", in Ignore. Objects whose owners don't exist are ignored too, because a real cluster's garbage collector
// would delete them.
//
// A failure shows the two specs and the seed. For example, KOPFTEST_SEED=17 repeats the walk with the seed 17. The test must not run in a
// testing/synctest bubble.
func Walk(t *testing.T, crd string, setup func() Scenario, steps int, opts ...WalkOption) {
	t.Helper()
	w := &walk{seed: 1, file: crd, steps: steps}
	for _, opt := range opts {
		opt(w)
	}
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if w.seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("kopftest: environment variable %s must be a number: %v", seedVariable, err)
		}
	}
	if err := w.load(); err != nil {
		t.Fatalf("kopftest: %v", err)
	}
	if finding := w.run(t, setup); finding != "" {
		t.Errorf("kopftest: %s\nTo reproduce: %s=%d go test -run '^%s$' .", finding, seedVariable, w.seed, t.Name())
	}
}

// seedVariable names the environment variable with the seed of a walk.
const seedVariable = "KOPFTEST_SEED"

// A walk is the state of one call of Walk.
type walk struct {
	seed  uint64
	file  string
	steps int
	valid []func(*unstructured.Unstructured) bool

	crd    *apiextensionsv1.CustomResourceDefinition
	schema *apiextensionsv1.JSONSchemaProps
	empty  *unstructured.Unstructured // object of the kind without a spec
}

// load checks the number of steps and reads the CRD.
func (w *walk) load() error {
	if w.steps < 1 {
		return fmt.Errorf("the number of steps must be positive, got %d", w.steps)
	}
	found := envtest.CRDInstallOptions{Paths: []string{w.file}, ErrorIfPathMissing: true}
	if err := envtest.ReadCRDFiles(&found); err != nil {
		return fmt.Errorf("read the CRD (paths are relative to the directory of the test): %w", err)
	}
	if len(found.CRDs) == 0 {
		return fmt.Errorf("no CRD in %s", w.file)
	}
	w.crd = found.CRDs[0]
	i := slices.IndexFunc(w.crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Served && v.Schema != nil })
	if i < 0 || w.crd.Spec.Versions[i].Schema.OpenAPIV3Schema == nil {
		return fmt.Errorf("CRD %s serves no version with a schema", w.crd.Name)
	}
	version := w.crd.Spec.Versions[i]
	w.schema = version.Schema.OpenAPIV3Schema
	w.empty = &unstructured.Unstructured{Object: map[string]any{}}
	w.empty.SetAPIVersion(w.crd.Spec.Group + "/" + version.Name)
	w.empty.SetKind(w.crd.Spec.Names.Kind)
	w.empty.SetName("walk")
	return nil
}

// maxTries limits the number of random objects, including invalid ones.
const maxTries = 1000

// objects returns the object for each step.
func (w *walk) objects(t *testing.T, scenario Scenario) (out []*unstructured.Unstructured) {
	t.Helper()
	given := scenario.Given
	given.Objects = nil
	cluster := w.given(given).cluster(t)
	generator := explore.NewGenerator(w.seed)
	var fields map[string]any
	var rejected error
	for range maxTries {
		if len(out) == w.steps {
			return out
		}
		next := generator.RandomFields(w.schema)
		if fields != nil {
			next = generator.Vary(w.schema, fields)
		}
		obj := w.empty.DeepCopy()
		maps.Copy(obj.Object, runtime.DeepCopyJSON(next))
		cluster.setDefaultNamespace(obj)
		if rejected = cluster.Client.Create(t.Context(), obj.DeepCopy(), client.DryRunAll); rejected != nil && !apierrors.IsInvalid(rejected) {
			t.Fatalf("kopftest: validate a random %s: %v", obj.GetKind(), rejected)
		}
		accepts := func(valid func(*unstructured.Unstructured) bool) bool { return valid(obj.DeepCopy()) }
		if rejected == nil && !slices.ContainsFunc(w.valid, func(v func(*unstructured.Unstructured) bool) bool { return !accepts(v) }) {
			out, fields = append(out, obj), next
		}
	}
	t.Fatalf("kopftest: of %d random objects of kind %s, %d were valid; the last error: %v", maxTries, w.empty.GetKind(), len(out), rejected)
	return nil
}

// given returns the initial state with the CRD of the walk added.
func (w *walk) given(given Given) Given {
	if !slices.Contains(given.CRDs, w.file) {
		given.CRDs = append(slices.Clone(given.CRDs), w.file)
	}
	return given
}

// run compares the state after each step with that after creating an object with the same spec, and returns the first difference.
func (w *walk) run(t *testing.T, setup func() Scenario) string {
	t.Helper()
	objects := w.objects(t, setup())
	steps := []func(testing.TB, *Cluster){create(objects[0])}
	for _, obj := range objects[1:] {
		steps = append(steps, replace(obj))
	}
	steps = append(steps, func(t testing.TB, c *Cluster) { c.Delete(t, objects[0].DeepCopy()) })
	walkRun := w.runScenario(t, setup, steps, "during the walk")
	for i, obj := range objects {
		switch {
		case i+1 < len(walkRun.QuietStates):
		case walkRun.Problem != "":
			return fmt.Sprintf("in step %d of the walk: %s%s", i+1, walkRun.Problem, describe(objects, i))
		default:
			return fmt.Sprintf("the walk ended before step %d", i+1)
		}
		creation := w.runScenario(t, setup, steps[:0:0], "", create(obj))
		if creation.Problem != "" || len(creation.QuietStates) < 2 {
			return fmt.Sprintf("after the creation: %s%s", creation.Problem, describe(objects[i:], 0))
		}
		walked, created := walkRun.QuietStates[i+1], creation.QuietStates[1]
		_, differs := created.Compare(walked)
		if _, outdated := walked.Compare(created); outdated == "" { // a condition from an earlier step keeps its observed generation
			continue
		}
		if differs != "" {
			return fmt.Sprintf("in step %d of the walk, the state differs from the state after creating an object with the same spec: %s%s", i+1, differs, describe(objects, i))
		}
	}
	if walkRun.Problem != "" {
		return "after the deletion: " + walkRun.Problem
	}
	if _, differs := walkRun.QuietStates[0].Compare(walkRun.QuietStates[len(objects)+1]); differs != "" {
		return "the state after the deletion differs from the state before the creation: " + differs
	}
	return ""
}

func (w *walk) runScenario(t *testing.T, setup func() Scenario, steps []func(testing.TB, *Cluster), when string, more ...func(testing.TB, *Cluster)) *explore.Run {
	t.Helper()
	return runScenario(t, func() Scenario {
		scenario := setup()
		scenario.Given = w.given(scenario.Given)
		scenario.Steps = append(slices.Clone(steps), more...)
		return scenario
	}, runOptions{when: when, waitBeforeSnapshot: true, collectGarbage: true}).run
}

func create(obj *unstructured.Unstructured) func(testing.TB, *Cluster) {
	return func(t testing.TB, c *Cluster) { c.Create(t, obj.DeepCopy()) }
}

// replace returns a step that replaces all of the stored object's fields except for metadata and status.
func replace(obj *unstructured.Unstructured) func(testing.TB, *Cluster) {
	return func(t testing.TB, c *Cluster) {
		Edit(t, c, obj.DeepCopy(), func(stored *unstructured.Unstructured) {
			for name := range stored.Object {
				if !slices.Contains(standardFields, name) {
					delete(stored.Object, name)
				}
			}
			for name, value := range runtime.DeepCopyJSON(obj.Object) {
				if !slices.Contains(standardFields, name) {
					stored.Object[name] = value
				}
			}
		})
	}
}

var standardFields = []string{"apiVersion", "kind", "metadata", "status"}

// describe formats the fields of the object in a step and in the step before.
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
		if !slices.Contains(standardFields, name) {
			fields[name] = value
		}
	}
	text, _ := json.Marshal(fields) // can't fail, because the generator only makes JSON values
	return string(text)
}
