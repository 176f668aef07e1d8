package progress_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func TestMulti_WritesToAllStores(t *testing.T) {
	annotations, status := progress.Annotations(ownPrefix), progress.Status("")
	multi := progress.Multi(annotations, status)
	for name, obj := range fieldObjects() {
		t.Run(name, func(t *testing.T) {
			mustStore(t, multi, obj, "fn/a", full)
			equal(t, "PROG-08 record in the first store", mustFetch(t, annotations, obj, "fn/a"), &full)
			equal(t, "PROG-08 record in the second store", mustFetch(t, status, obj, "fn/a"), &full)
			equal(t, "PROG-08 record after Store", mustFetch(t, multi, obj, "fn/a"), &full)
			mustPurge(t, multi, obj, "fn/a")
			for _, s := range []progress.Store{multi, annotations, status} {
				if record := mustFetch(t, s, obj, "fn/a"); record != nil {
					t.Errorf("PROG-08: record in %T after Purge = %+v, want none", s, *record)
				}
			}
		})
	}
}

func TestMulti_ReadsFirstStoreWithRecord(t *testing.T) {
	one, other := progress.Annotations("one.example.com"), progress.Annotations("other.example.com")
	const broken, first, second = "{", `{"retries":1}`, `{"retries":2}`
	for _, test := range []struct {
		name       string
		one, other string
		want       int // number of retries; -1 for no record
		unreadable []string
	}{
		{"PROG-08 both", first, second, 1, nil},
		{"PROG-08 only the first", first, "null", 1, nil},
		{"PROG-08 only the second", "null", second, 2, nil},
		{"PROG-08 no record", "null", "null", -1, nil},
		{"B-30 the first is unreadable", broken, second, 2, []string{"one."}},
		{"B-30 the second is unreadable but not used", first, broken, 1, nil},
		{"B-30 both are unreadable", broken, broken, -1, []string{"one.", "other."}},
	} {
		t.Run(test.name, func(t *testing.T) {
			obj := configMap("one.example.com/a", test.one, "other.example.com/a", test.other)
			record, err := progress.Multi(one, other).Fetch(obj, "a")
			got := -1
			if record != nil {
				got = record.Retries
			}
			equal(t, "retries", got, test.want)
			if (err == nil) != (test.unreadable == nil) {
				t.Errorf("error = %v, want an error: %t", err, test.unreadable != nil)
			}
			for _, part := range test.unreadable {
				if !strings.Contains(fmt.Sprint(err), part) {
					t.Errorf("error = %v, want an error about %s", err, part)
				}
			}
		})
	}
}

func TestMulti_JoinsErrors(t *testing.T) {
	errA, errB := errors.New("no a"), errors.New("no b")
	multi := progress.Multi(failingStore{store, map[string]error{"a": errA}}, failingStore{store, map[string]error{"a": errB}}, progress.Status(""))
	obj := withStatus(nil)
	for what, err := range map[string]error{"Store": multi.Store(obj, "a", full), "Purge": multi.Purge(withStatus(nil), "a")} {
		if !errors.Is(err, errA) || !errors.Is(err, errB) {
			t.Errorf("PROG-08: %s = %v, want the errors of both stores", what, err)
		}
	}
	equal(t, "PROG-08 record in the last store", mustFetch(t, progress.Status(""), obj, "a"), &full)
}

func TestMulti_Clear(t *testing.T) {
	essence := map[string]any{
		"metadata": essenceOf(ownPrefix+"/a", "x", "example.com/a", "x")["metadata"], "status": statusOf(map[string]any{"a": fullFields}),
	}
	progress.Multi(progress.Annotations(ownPrefix), progress.Status("")).Clear(essence)
	equal(t, "ESS-08 PROG-08 essence", essence, map[string]any{
		"metadata": essenceOf("example.com/a", "x")["metadata"], "status": map[string]any{"phase": "up", "kopf": map[string]any{"other": "d"}},
	})
}

// basicStore does not implement the optional methods.
type basicStore struct{ embeddedStore }

func TestMulti_Key(t *testing.T) {
	annotations, status := progress.Annotations(ownPrefix), progress.Status("")
	for _, test := range []struct {
		name    string
		multi   progress.Store
		id      string
		want    string
		problem string
	}{
		{"B-21 annotations first", progress.Multi(annotations, status), "fn/a", ownPrefix + "/fn.a", ""},
		{"B-21 annotations second", progress.Multi(status, annotations), "fn/a", ownPrefix + "/fn.a", ""},
		{"B-21 nested stores", progress.Multi(progress.Multi(status), progress.Multi(annotations)), "fn/a", ownPrefix + "/fn.a", ""},
		{"B-21 only the status", progress.Multi(status), "fn/a", "fn/a", ""},
		{"B-21 a store without KeyChecker", progress.Multi(basicStore{store}), "fn/a", "fn/a", ""},
		{"B-21 an id that is invalid in one store", progress.Multi(status, basicStore{store}, annotations), "fn:a", "", "fn:a"},
		{"B-21 an empty id", progress.Multi(basicStore{store}), "", "", "empty"},
	} {
		t.Run(test.name, func(t *testing.T) {
			key, err := test.multi.(progress.KeyChecker).Key(test.id)
			equal(t, "key", key, test.want)
			if (err == nil) != (test.problem == "") || !strings.Contains(fmt.Sprint(err), test.problem) {
				t.Errorf("error = %v, want an error with %q", err, test.problem)
			}
		})
	}
}

func TestMulti_Check(t *testing.T) {
	for _, test := range []struct {
		name     string
		it       any
		problems []string
	}{
		{"PROG-08 two stores", progress.Multi(progress.Annotations(""), progress.Status("")), nil},
		{"PROG-08 a store without Checker", progress.Multi(basicStore{store}), nil},
		{"PROG-08 no store", progress.Multi(), []string{"Multi", "at least one"}},
		{"PROG-08 a nil store", progress.Multi(progress.Smart(), nil), []string{"store 2 is nil"}},
		{"PROG-08 invalid stores", progress.Multi(progress.Status("status"), progress.Status("metadata.x")), []string{`"status"`, `"metadata.x"`}},
		{"ESS-14 two baselines", progress.MultiBaseline(progress.AnnotationBaseline(""), progress.StatusBaseline("")), nil},
		{"ESS-14 no baseline", progress.MultiBaseline(), []string{"MultiBaseline", "at least one"}},
		{"ESS-14 a nil baseline", progress.MultiBaseline(nil), []string{"store 1 is nil"}},
		{"ESS-14 invalid baselines", progress.MultiBaseline(progress.AnnotationBaseline(" "), progress.StatusBaseline("status")), []string{`" "`, `"status"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.it.(progress.Checker).Check()
			if (err == nil) != (test.problems == nil) {
				t.Errorf("Check = %v, want an error with %q, or none without problems", err, test.problems)
			}
			for _, problem := range test.problems {
				if !strings.Contains(fmt.Sprint(err), problem) {
					t.Errorf("Check = %v, want an error about %s", err, problem)
				}
			}
		})
	}
}

func TestMulti_CopiesArguments(t *testing.T) {
	stores := []progress.Store{progress.Annotations(ownPrefix)}
	baselines := []progress.Baseline{progress.AnnotationBaseline(ownPrefix)}
	multi, multiBaseline := progress.Multi(stores...), progress.MultiBaseline(baselines...)
	stores[0], baselines[0] = nil, nil
	obj := configMap()
	mustStore(t, multi, obj, "a", full)
	multiBaseline.Store(obj, []byte("{}"))
	equal(t, "names", namesOf(obj, ownPrefix), []string{"a", "last-handled-configuration"})
}

func TestMultiBaseline(t *testing.T) {
	annotation, status := progress.AnnotationBaseline(ownPrefix), progress.StatusBaseline("")
	multi := progress.MultiBaseline(annotation, status)
	obj := withStatus(nil)
	if got := multi.Fetch(obj); got != nil {
		t.Errorf("ESS-14: baseline before Store = %q, want none", got)
	}
	status.Store(obj, []byte(`{"v":2}`))
	equal(t, "ESS-14 baseline of the second store", string(multi.Fetch(obj)), `{"v":2}`)
	annotation.Store(obj, []byte(`{"v":1}`))
	equal(t, "ESS-14 baseline if both stores have one", string(multi.Fetch(obj)), `{"v":1}`)
	multi.Store(obj, []byte(`{"v":3}`))
	equal(t, "ESS-14 baselines in both stores", []string{string(annotation.Fetch(obj)), string(status.Fetch(obj))}, []string{`{"v":3}`, `{"v":3}`})

	content := jsonOf(t, obj)
	multi.Clear(content)
	for name, baseline := range map[string]progress.Baseline{"annotation": annotation, "status": status} {
		if got := baseline.Fetch(&unstructured.Unstructured{Object: content}); got != nil {
			t.Errorf("ESS-07 ESS-14: %s: essence has %q, want no baseline", name, got)
		}
	}
}

func TestMulti_Fields(t *testing.T) {
	for name, it := range map[string]any{
		"PROG-08": progress.Multi(progress.Annotations(""), progress.Status("status.one"), progress.Multi(progress.Status("status.two"))),
		"ESS-14": progress.MultiBaseline(progress.AnnotationBaseline(""), progress.StatusBaseline("status.one"),
			progress.IgnoringFields(progress.StatusBaseline("status.two"))),
	} {
		fields := it.(progress.FieldUser).Fields()
		for _, part := range []string{"status.one", "status.two"} {
			if !slices.ContainsFunc(fields, func(field string) bool { return strings.HasPrefix(field, part) }) {
				t.Errorf("%s B-33: fields = %q, want fields of %s", name, fields, part)
			}
		}
	}
}
