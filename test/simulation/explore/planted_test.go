package explore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kopf-runtime/kopf-runtime/internal/explore"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// pattern is a fault pattern: one of the patterns of Sieve, or lost responses.
type pattern string

const (
	intermediate pattern = "intermediate state"
	stale        pattern = "stale state"
	unobserved   pattern = "unobserved state"
	lostAnswer   pattern = "lost answer"
)

// plantedBug is a bug that has no effect without faults and that plans of its pattern must find.
type plantedBug struct {
	name    string
	pattern pattern
	// foundBy is a part of the text of the plan that finds the bug.
	foundBy     string
	newScenario func(w *world) kopftest.Scenario
	// wrap wraps the transport of the operator, if it is not nil.
	wrap func() explore.TransportWrapper
}

var plantedBugs = []plantedBug{
	{
		name: "a new process ignores the records of its predecessor", pattern: intermediate, foundBy: "crash-after@2",
		newScenario: func(w *world) kopftest.Scenario {
			sc := must(find("create")).newScenario(w)
			handlers := sc.Operator
			sc.Operator = func() []kopf.Option {
				return append(handlers(), kopf.WithProgress(forgetful{progress.Annotations("kopf.zalando.org"), time.Now()}))
			}
			return sc
		},
	},
	{
		name: "records are written before the changes of the handlers", pattern: intermediate, foundBy: "crash-after@1",
		newScenario: func(w *world) kopftest.Scenario {
			return w.newScenario(func() *kopf.Resource[widget] {
				return widgets().OnCreate("paint", func(_ context.Context, req *request) error {
					req.Object.Spec.Color = "blue"
					return nil
				})
			}, nil)
		},
		wrap: func() explore.TransportWrapper { return recordsFirst },
	},
	{
		name: "a handler that creates two children, but checks only whether the first one exists", pattern: intermediate, foundBy: "crash-after@1",
		newScenario: func(w *world) kopftest.Scenario {
			return w.newScenario(func() *kopf.Resource[widget] {
				return widgets().OnCreate("pair", func(ctx context.Context, req *request) error {
					for _, name := range []string{"left", "right"} {
						err := req.Client.Create(ctx, configMap(name))
						if apierrors.IsAlreadyExists(err) {
							return nil
						}
						if err != nil {
							return err
						}
					}
					return nil
				})
			}, nil)
		},
	},
	{
		name: "live reads are answered by a cache", pattern: stale, foundBy: "/list@",
		newScenario: func(w *world) kopftest.Scenario { return must(find("create")).newScenario(w) },
		wrap:        func() explore.TransportWrapper { return cachedReads },
	},
	{
		name: "the engine does not wait for its own writes", pattern: stale, foundBy: "unseen@",
		newScenario: func(w *world) kopftest.Scenario { return must(find("create")).newScenario(w) },
		wrap:        func() explore.TransportWrapper { return withoutVersions },
	},
	{
		name: "a handler that creates a child if the cache has none", pattern: stale, foundBy: "/list@",
		newScenario: func(w *world) kopftest.Scenario {
			return w.newScenario(func() *kopf.Resource[widget] {
				return widgets().Owns(&corev1.ConfigMap{}).OnReconcile("child", func(ctx context.Context, req *request) error {
					var children corev1.ConfigMapList
					if err := req.Client.List(ctx, &children); err != nil || len(children.Items) > 0 {
						return err
					}
					return req.Client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", GenerateName: "child-"}})
				})
			}, nil)
		},
	},
	{
		name: "a handler with a child whose changes do not trigger it", pattern: stale, foundBy: "/list@",
		newScenario: func(w *world) kopftest.Scenario { return w.trackedSource(widgets) },
	},
	{
		name: "a handler with an external effect for each event", pattern: unobserved, foundBy: "unseen@",
		newScenario: func(w *world) kopftest.Scenario {
			return w.newScenario(func() *kopf.Resource[widget] {
				return widgets().OnCreate("a", w.recordingHandler("a")).OnEvent("event", func(_ context.Context, req *request) error {
					w.record(fmt.Sprintf("size %d", req.Object.Spec.Size), req.Object, "seen")
					return nil
				})
			}, nil, together(time.Second, resize(2), resize(3)))
		},
	},
	{
		name: "a predicate that compares two events", pattern: unobserved, foundBy: "unseen@",
		newScenario: func(w *world) kopftest.Scenario {
			sc := w.newScenario(nil, nil, together(time.Second, resize(2), resize(3)))
			sc.Operator = func() []kopf.Option {
				bySteps := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
					return e.ObjectNew.(widget).Spec.Size-e.ObjectOld.(widget).Spec.Size < 2
				}}
				return []kopf.Option{kopf.For(one(), kopf.WithPredicates(bySteps)).OnCreate("a", w.recordingHandler("a")).OnUpdate("u", w.recordingHandler("u"))}
			}
			return sc
		},
	},
	{
		name: "a handler that counts updates", pattern: unobserved, foundBy: "unseen@",
		newScenario: func(w *world) kopftest.Scenario {
			updates := 0
			return w.newScenario(func() *kopf.Resource[widget] {
				return widgets().OnUpdate("count", func(_ context.Context, req *request) error {
					updates++
					w.record("count", req.Object, updates)
					return nil
				})
			}, nil, together(time.Second, resize(2), resize(3)))
		},
	},
	{
		name: "a child with a generated name", pattern: lostAnswer, foundBy: "lost@1",
		newScenario: func(w *world) kopftest.Scenario {
			return w.newScenario(func() *kopf.Resource[widget] {
				return widgets().OnCreate("child", func(ctx context.Context, req *request) error {
					return req.Client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", GenerateName: "child-"}})
				})
			}, nil)
		},
	},
	{
		name: "a handler that fails if its child exists", pattern: lostAnswer, foundBy: "lost@1",
		newScenario: func(w *world) kopftest.Scenario {
			return w.newScenario(func() *kopf.Resource[widget] {
				return widgets().OnCreate("child", func(ctx context.Context, req *request) error {
					err := req.Client.Create(ctx, configMap("child"))
					if apierrors.IsAlreadyExists(err) {
						return kopf.Permanent(err)
					}
					if err == nil {
						w.record("child", req.Object, "made")
					}
					return err
				})
			}, nil)
		},
	},
	{
		name: "a patch that appends an item is sent again after an error", pattern: lostAnswer, foundBy: "lost@1",
		newScenario: func(w *world) kopftest.Scenario {
			sc := w.newScenario(func() *kopf.Resource[widget] {
				return widgets().OnCreate("tag", func(ctx context.Context, req *request) error {
					if len(req.Object.Spec.Tags) > 1 {
						return nil
					}
					add := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"add","path":"/spec/tags/-","value":"x"}]`))
					if err := req.Client.Patch(ctx, req.Object.DeepCopy(), add); err == nil {
						return nil
					}
					return req.Client.Patch(ctx, req.Object.DeepCopy(), add)
				})
			}, nil)
			tagged := one()
			tagged.Spec.Tags = []string{"first"}
			sc.Steps = []step{create(tagged)}
			return sc
		},
	},
}

// maxReferences is the number of reference runs whose plans may show no difference.
const maxReferences = 5

// TestExplore_FindsPlantedBugs checks that a plan of its pattern finds each planted bug, and that the bug has no effect
// without faults.
func TestExplore_FindsPlantedBugs(t *testing.T) {
	patterns := map[pattern]int{}
	for _, bug := range plantedBugs {
		patterns[bug.pattern]++
		t.Run(bug.name, func(t *testing.T) {
			t.Parallel()
			setup := func() kopftest.Scenario { return bug.newScenario(&world{inputs: map[string]string{}}) }
			var report *explore.Report
			for range maxReferences { // in some schedules, a bug has its effect in the reference run, and plans show no difference
				report = explore.Explore(t, explore.NewRunner(setup, bug.wrap), explore.Options{
					First: true, Skip: func(plan explore.Plan) bool { return !strings.Contains(plan.String(), bug.foundBy) },
				})
				if len(report.Violations) > 0 {
					break
				}
			}
			if len(report.Violations) == 0 {
				t.Fatalf("no violation in %d plans; the reference run is\n%s", report.Ran, report.Reference)
			}
			found := report.Violations[0]
			if len(found.Plan) == 0 {
				t.Fatalf("got a violation without faults: %s", found.Text)
			}
			t.Logf("%s, found by %s: %.300s", bug.pattern, found.Plan, found.Text)
		})
	}
	for _, p := range []pattern{intermediate, stale, unobserved, lostAnswer} {
		if patterns[p] < 2 {
			t.Errorf("got %d planted bugs of the pattern %q, want at least 2", patterns[p], p)
		}
	}
}

func must(s scenario, ok bool) scenario {
	if !ok {
		panic("unknown scenario")
	}
	return s
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

// forgetful is a store that does not find records from before the start of its process.
type forgetful struct {
	store
	since time.Time
}

type store = progress.Store // a field with this name would hide the method

func (s forgetful) Fetch(obj client.Object, id string) (*progress.Record, error) {
	record, err := s.store.Fetch(obj, id)
	if record != nil && record.Started.Before(s.since) {
		return nil, err
	}
	return record, err
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// recordsFirst splits patches of objects into two: first the metadata, then the rest.
func recordsFirst(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodPatch {
			return next.RoundTrip(r)
		}
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		var body map[string]any
		if err := json.Unmarshal(text, &body); err != nil || body["spec"] == nil {
			return next.RoundTrip(withBody(r, text))
		}
		metadata, _ := json.Marshal(map[string]any{"metadata": body["metadata"]})
		if response, err := next.RoundTrip(withBody(r, metadata)); err != nil || response.StatusCode != http.StatusOK {
			return response, err
		}
		spec, _ := json.Marshal(map[string]any{"spec": body["spec"]})
		return next.RoundTrip(withBody(r, spec))
	})
}

func withBody(r *http.Request, text []byte) *http.Request {
	out := r.Clone(r.Context())
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return out
}

// cachedReads answers reads of single objects from a cache.
func cachedReads(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/one") {
			r = r.Clone(r.Context())
			query := r.URL.Query()
			query.Set("resourceVersion", "0")
			r.URL.RawQuery = query.Encode()
		}
		return next.RoundTrip(r)
	})
}

// withoutVersions answers patches with the oldest version, so that the engine does not know which version the cache
// must have.
func withoutVersions(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err != nil || r.Method != http.MethodPatch || response.StatusCode != http.StatusOK {
			return response, err
		}
		defer response.Body.Close()
		var obj map[string]any
		if err := json.NewDecoder(response.Body).Decode(&obj); err != nil {
			return nil, err
		}
		meta, ok := obj["metadata"].(map[string]any)
		if !ok {
			return nil, errors.New("the response has no metadata")
		}
		meta["resourceVersion"] = "1"
		text, err := json.Marshal(obj)
		response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		return response, err
	})
}
