package kopftest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/explore"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
)

type podRequest = kopf.Request[*corev1.Pod]

// cloud is the external state of the handlers.
type cloud struct{ volumes []string }

// scenarioOf returns a scenario that creates, changes and deletes a pod with these handlers.
func scenarioOf(declare func(*kopf.Resource[*corev1.Pod], *cloud)) func() Scenario {
	return func() Scenario {
		outside := &cloud{}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "orders"},
			Spec:       corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "one"}}},
		}
		return Scenario{
			Given: Given{Objects: []client.Object{pod}},
			Operator: func() []kopf.Option {
				r := kopf.For(&corev1.Pod{})
				declare(r, outside)
				return []kopf.Option{r}
			},
			Steps: []func(testing.TB, *Cluster){
				func(t testing.TB, c *Cluster) {
					Edit(t, c, pod.DeepCopy(), func(pod *corev1.Pod) { pod.Labels = map[string]string{"edited": "yes"} })
				},
				func(t testing.TB, c *Cluster) {
					c.Delete(t, pod.DeepCopy())
				},
			},
			ExternalState: func() any { return outside.volumes },
		}
	}
}

// robust declares handlers that are idempotent and return when their contexts are canceled.
func robust(r *kopf.Resource[*corev1.Pod], outside *cloud) {
	r.OnCreate("volume", func(_ context.Context, req *podRequest) error {
		if len(outside.volumes) == 0 {
			outside.volumes = append(outside.volumes, req.Object.Name)
		}
		req.Object.Spec.Tolerations = append(req.Object.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprint(len(req.Object.Spec.Tolerations))})
		return nil
	})
	r.OnCreate("secret", func(ctx context.Context, req *podRequest) error {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: req.Object.Namespace, Name: req.Object.Name}}
		if err := req.Adopt(secret); err != nil {
			return err
		}
		return client.IgnoreAlreadyExists(req.Client.Create(ctx, secret))
	})
	r.OnUpdate("slow", func(ctx context.Context, req *podRequest) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Minute):
		}
		if req.Attempt.Number == 0 {
			return kopf.Temporary(errors.New("not yet"), time.Hour)
		}
		return nil
	}, kopf.Retries(5))
	r.Daemon("watch", daemons.Daemon{}, func(ctx context.Context, _ *podRequest) error {
		<-ctx.Done()
		return nil
	})
	r.OnDelete("free", func(context.Context, *podRequest) error {
		outside.volumes = nil
		return nil
	})
}

func TestCheck_AcceptsRobustHandlers(t *testing.T) {
	NewWithT(t).Expect(findings(t, scenarioOf(robust))).To(BeEmpty())
}

// The handler finds the child by its label and stores the random name in the parent.
func TestCheck_AcceptsChildrenWithRandomNames(t *testing.T) {
	found := findings(t, scenarioOf(func(r *kopf.Resource[*corev1.Pod], _ *cloud) {
		r.OnCreate("secret", func(ctx context.Context, req *podRequest) error {
			var children corev1.SecretList
			if err := req.Client.List(ctx, &children, client.InNamespace(req.Object.Namespace), client.MatchingLabels{"of": req.Object.Name}); err != nil {
				return err
			}
			if len(children.Items) == 0 {
				secret := corev1.Secret{ObjectMeta: metav1.ObjectMeta{
					Namespace: req.Object.Namespace, Name: "orders-" + rand.String(8), Labels: map[string]string{"of": req.Object.Name},
				}}
				if err := req.Client.Create(ctx, &secret); err != nil {
					return err
				}
				children.Items = append(children.Items, secret)
			}
			req.Object.Annotations = map[string]string{"example.com/secret": children.Items[0].Name}
			return nil
		})
	}))
	NewWithT(t).Expect(found).To(BeEmpty())
}

// Check reports a bug that many faults reveal once for each kind of difference.
func TestCheck_ReportsEachKindOfDifferenceOnce(t *testing.T) {
	g := NewWithT(t)
	found := findings(t, scenarioOf(func(r *kopf.Resource[*corev1.Pod], outside *cloud) {
		r.OnCreate("volumes", func(_ context.Context, req *podRequest) error {
			outside.volumes = append(outside.volumes, fmt.Sprint("volume", len(outside.volumes)))
			if req.Attempt.Number < 4 {
				return kopf.Temporary(errors.New("one more"), time.Second)
			}
			return nil
		})
	}))
	g.Expect(found).To(HaveLen(1))
	g.Expect(found[0]).To(MatchRegexp(`the external state is .* \(and \d+ more of this kind\)`))
}

func TestCheck_FindsBugs(t *testing.T) {
	for name, test := range map[string]struct {
		declare func(*kopf.Resource[*corev1.Pod], *cloud)
		finds   string
	}{
		"a child for each call": {func(r *kopf.Resource[*corev1.Pod], _ *cloud) {
			r.OnCreate("secret", func(ctx context.Context, req *podRequest) error {
				return req.Client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "orders-"}})
			})
		}, "expected 1 objects Secret default/orders-*, found 2"},
		"a child that must not exist yet": {func(r *kopf.Resource[*corev1.Pod], _ *cloud) {
			r.OnCreate("secret", func(ctx context.Context, req *podRequest) error {
				err := req.Client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders"}})
				if apierrors.IsAlreadyExists(err) {
					return kopf.Permanent(err)
				}
				if err == nil {
					req.Object.Annotations = map[string]string{"example.com/secret": "yes"}
				}
				return err
			})
		}, "differs"},
		"an external object for each call": {func(r *kopf.Resource[*corev1.Pod], outside *cloud) {
			r.OnCreate("volume", func(_ context.Context, req *podRequest) error {
				outside.volumes = append(outside.volumes, req.Object.Name)
				return nil
			})
		}, "the external state is [orders orders], expected [orders]; called again: "},
		"a counter": {func(r *kopf.Resource[*corev1.Pod], _ *cloud) {
			r.OnCreate("count", func(ctx context.Context, req *podRequest) error {
				var found corev1.ConfigMap
				key := client.ObjectKey{Namespace: "default", Name: "counter"}
				if err := req.Client.Get(ctx, key, &found); err != nil {
					found = corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "counter"}, Data: map[string]string{"n": ""}}
					return req.Client.Create(ctx, &found)
				}
				found.Data["n"] += "1"
				return req.Client.Update(ctx, &found)
			})
		}, "ConfigMap default/counter differs"},
		"a merge patch of a list without a version": {func(r *kopf.Resource[*corev1.Pod], _ *cloud) {
			r.OnUpdate("tolerate", func(ctx context.Context, req *podRequest) error {
				if len(req.Object.Spec.Tolerations) > 1 {
					return nil
				}
				before := req.Object.DeepCopy()
				after := req.Object.DeepCopy()
				after.Spec.Tolerations = append(after.Spec.Tolerations, corev1.Toleration{Key: "more"})
				return req.Client.Patch(ctx, after, client.MergeFrom(before))
			})
		}, "replaces the list spec.tolerations without a resourceVersion"},
		"a JSON patch that replaces a list": {func(r *kopf.Resource[*corev1.Pod], _ *cloud) {
			r.OnUpdate("tolerate", func(ctx context.Context, req *podRequest) error {
				return req.Client.Patch(ctx, req.Object.DeepCopy(), client.RawPatch(types.JSONPatchType,
					[]byte(`[{"op":"replace","path":"/spec/tolerations","value":[{"key":"more"}]}]`)))
			})
		}, "replaces the list at /spec/tolerations without a test"},
		"a list item addressed by its index": {func(r *kopf.Resource[*corev1.Pod], _ *cloud) {
			r.OnUpdate("tolerate", func(ctx context.Context, req *podRequest) error {
				return req.Client.Patch(ctx, req.Object.DeepCopy(), client.RawPatch(types.JSONPatchType,
					[]byte(`[{"op":"replace","path":"/spec/tolerations/0","value":{"key":"more"}}]`)))
			})
		}, "addresses /spec/tolerations/0 by its index without a test"},
		"a handler that triggers itself": {func(r *kopf.Resource[*corev1.Pod], _ *cloud) {
			r.OnUpdate("stamp", func(ctx context.Context, req *podRequest) error {
				mine := req.Object.DeepCopy()
				mine.Annotations = map[string]string{"example.com/n": mine.Annotations["example.com/n"] + "1"}
				return req.Client.Patch(ctx, mine, client.MergeFrom(req.Object))
			})
		}, "cause their own calls again and again"},
		"an update without a read": {func(r *kopf.Resource[*corev1.Pod], _ *cloud) {
			r.OnUpdate("label", func(ctx context.Context, req *podRequest) error {
				mine := req.Object.DeepCopy()
				mine.ResourceVersion = ""
				return req.Client.Update(ctx, mine)
			})
		}, "replaces the whole object without a resourceVersion"},
		"an ignored context": {func(r *kopf.Resource[*corev1.Pod], _ *cloud) {
			r.OnCreate("deaf", func(context.Context, *podRequest) error {
				<-time.After(3 * time.Hour)
				return nil
			})
		}, "deaf (create, attempt 0) of default/orders did not return after the operator was stopped"},
		"a daemon that does not stop": {func(r *kopf.Resource[*corev1.Pod], _ *cloud) {
			r.Daemon("deaf", daemons.Daemon{CancellationTimeout: new(time.Second)}, func(context.Context, *podRequest) error {
				<-time.After(3 * time.Hour)
				return nil
			})
		}, "did not return"},
		"an operator that does not become quiet": {func(r *kopf.Resource[*corev1.Pod], _ *cloud) {
			r.OnCreate("never", func(context.Context, *podRequest) error { return kopf.Temporary(errors.New("never"), 24*time.Hour) })
		}, "without faults: the operator is not quiet after 25h0m0s: Pod default/orders has unfinished handlers: never (delayed until"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(findings(t, scenarioOf(test.declare))).To(ContainElement(ContainSubstring(test.finds)))
		})
	}
}

// Without handler calls, a scenario would always pass.
func TestCheck_FailsWithoutHandlerCalls(t *testing.T) {
	never := func(r *kopf.Resource[*corev1.Pod], _ *cloud) {
		r.OnCreate("volume", func(context.Context, *podRequest) error { return nil }, kopf.Label("tier", filter.Equal("gold")))
	}
	NewWithT(t).Expect(findings(t, scenarioOf(never))).To(ConsistOf(ContainSubstring("no handler was called")))
}

// Pointer addresses and generated names of children differ between runs.
func TestCheck_IgnoresAddressesAndGeneratedNames(t *testing.T) {
	type volume struct{ size int }
	setup := func() Scenario {
		outside := map[string]*volume{}
		return Scenario{
			Given: Given{Objects: []client.Object{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "orders"}}}},
			Operator: func() []kopf.Option {
				return []kopf.Option{kopf.For(&corev1.Pod{}).OnCreate("volumes", func(ctx context.Context, req *podRequest) error {
					outside[req.Object.Name] = &volume{1}
					for _, role := range []string{"one", "two", "three"} {
						var found corev1.SecretList
						if err := req.Client.List(ctx, &found, client.MatchingLabels{"role": role}); err != nil {
							return err
						}
						secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
							Namespace: "default", GenerateName: "orders-", Labels: map[string]string{"role": role},
						}}
						if len(found.Items) > 0 {
							continue
						}
						if err := req.Client.Create(ctx, secret); err != nil {
							return err
						}
					}
					return nil
				})}
			},
			ExternalState: func() any { return outside },
		}
	}
	NewWithT(t).Expect(findings(t, setup)).To(BeEmpty())
}

func TestNormalizeState_GeneratedNames(t *testing.T) {
	g := NewWithT(t)
	object := func(name, role string, more map[string]any) map[string]any {
		meta := map[string]any{"name": name, "generateName": "a-", "labels": map[string]any{"role": role}}
		maps.Copy(meta, more)
		return map[string]any{"kind": "Node", "metadata": meta}
	}
	here := explore.QuietState{State: explore.NormalizeState([]map[string]any{object("a-1", "x", nil), object("a-2", "y", nil)}, nil)}
	there := explore.QuietState{State: explore.NormalizeState([]map[string]any{object("a-1", "y", nil), object("a-2", "x", nil)}, nil)}
	_, text := here.Compare(there)
	g.Expect(text).To(BeEmpty(), "generated names must not cause a difference")
	dying := explore.QuietState{State: explore.NormalizeState([]map[string]any{
		object("a-1", "x", map[string]any{"deletionTimestamp": "2000-01-01T00:00:00Z"}), object("a-2", "y", nil),
	}, nil)}
	_, text = here.Compare(dying)
	g.Expect(text).To(And(ContainSubstring("Node a-*"), ContainSubstring("deletionTimestamp")))
}

// If an object is newer than the clock, the engine would delay its handlers for years.
func TestCheck_RejectsObjectsNewerThanTheClock(t *testing.T) {
	if os.Getenv("KOPFTEST_AHEAD") != "" {
		Check(t, func() Scenario {
			scenario := scenarioOf(robust)()
			scenario.Given.Objects[0].SetCreationTimestamp(metav1.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
			return scenario
		})
		return
	}
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.short", "-test.run=^TestCheck_RejectsObjectsNewerThanTheClock$")
	command.Env = append(os.Environ(), "KOPFTEST_AHEAD=yes")
	text, err := command.CombinedOutput()
	NewWithT(t).Expect(err).To(HaveOccurred())
	NewWithT(t).Expect(string(text)).To(And(ContainSubstring("set Given.Now"), Not(ContainSubstring("panic"))))
}

// A failing step fails the test, names the step, and stops the operator before its bubble ends.
func TestCheck_FailingStep(t *testing.T) {
	if os.Getenv("KOPFTEST_FAILING_STEP") != "" {
		Check(t, func() Scenario {
			scenario := scenarioOf(robust)()
			scenario.Steps = []func(testing.TB, *Cluster){func(t testing.TB, c *Cluster) { c.Get(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "missing"}}) }}
			return scenario
		})
		return
	}
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.short", "-test.run=^TestCheck_FailingStep$")
	command.Env = append(os.Environ(), "KOPFTEST_FAILING_STEP=yes")
	text, err := command.CombinedOutput()
	NewWithT(t).Expect(err).To(HaveOccurred())
	NewWithT(t).Expect(string(text)).To(And(
		ContainSubstring("reading Pod default/missing"), ContainSubstring("step 1 of the scenario failed, without faults"), Not(ContainSubstring("panic"))))
}

// Check ignores the annotations of an operator with its own prefix (KEY-21). It compares kinds named Event or Lease of
// other groups.
func TestNormalizeState_IgnoresInternalAnnotations(t *testing.T) {
	object := func(version, kind string, annotations map[string]any) map[string]any {
		return map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": "one", "annotations": annotations}}
	}
	g := NewWithT(t)
	state := explore.NormalizeState([]map[string]any{
		object("v1", "Event", nil), object("events.k8s.io/v1", "Event", nil), object("coordination.k8s.io/v1", "Lease", nil),
		object("example.com/v1", "Event", nil), object("example.com/v1", "Lease", nil),
	}, nil)
	g.Expect(state).To(And(HaveLen(2), HaveKey("Event one"), HaveKey("Lease one")))
	here := explore.QuietState{State: explore.NormalizeState([]map[string]any{object("v1", "Pod", map[string]any{"example.com/kopf-managed": "yes"})}, nil)}
	there := explore.QuietState{State: explore.NormalizeState([]map[string]any{object("v1", "Pod", map[string]any{})}, nil)}
	_, text := here.Compare(there)
	g.Expect(text).To(BeEmpty())
}

// In a long scenario, Check runs only an evenly distributed part of the injections and logs this.
func TestInjections_LongScenario(t *testing.T) {
	g := NewWithT(t)
	l := &listener{TB: t}
	short := &scenarioRun{writes: make([]Write, maxInjections), calls: make([]Call, 3)}
	g.Expect(injections(l, short)).To(HaveLen(5*maxInjections + 3))
	g.Expect(l.logged).To(BeEmpty())
	long := &scenarioRun{writes: make([]Write, 1000), calls: make([]Call, 3000)}
	all := injections(l, long)
	g.Expect(all).To(HaveLen(6 * maxInjections))
	g.Expect(all[0].write).To(Equal(1))
	g.Expect(all[5*maxInjections-1].write).To(Equal(1000))
	g.Expect(all[5*maxInjections].call).To(Equal(1))
	g.Expect(all[len(all)-1].call).To(Equal(3000))
	g.Expect(l.logged).To(ContainSubstring("1000 writes and 3000 calls; 100 of each are tried"))
	g.Expect(spreadIndexes(0)).To(BeEmpty())
	g.Expect(spreadIndexes(1)).To(Equal([]int{0}))
}

func TestItemIndex_OfUnguardedPatches(t *testing.T) {
	for text, where := range map[string]string{
		`[{"op":"replace","path":"/spec/items/0","value":1}]`:                                                             "/spec/items/0",
		`[{"op":"remove","path":"/spec/items/10"}]`:                                                                       "/spec/items/10",
		`[{"op":"add","path":"/spec/items/0/image","value":"x"}]`:                                                         "/spec/items/0/image",
		`[{"op":"move","from":"/spec/items/1","path":"/spec/first"}]`:                                                     "/spec/items/1",
		`[{"op":"add","path":"/spec/items/-","value":1}]`:                                                                 "",
		`[{"op":"test","path":"/spec/items/0","value":2},{"op":"replace","path":"/spec/items/0","value":1}]`:              "",
		`[{"op":"replace","path":"/spec/items/0","value":1},{"op":"add","path":"/metadata/resourceVersion","value":"5"}]`: "",
		`[{"op":"replace","path":"/spec/items/0","value":1},{"op":"remove","path":"/metadata/resourceVersion"}]`:          "/spec/items/0",
		`[{"op":"add","path":"/data/0","value":"x"},{"op":"add","path":"/metadata/labels/1","value":"x"}]`:                "",
		`[{"op":"replace","path":"/spec/size","value":1},{"op":"add","path":"/metadata/annotations/a~10","value":"x"}]`:   "",
	} {
		var body any
		g := NewWithT(t)
		g.Expect(json.Unmarshal([]byte(text), &body)).To(Succeed())
		got := ""
		if !isGuarded(body) {
			got = itemIndex(body)
		}
		g.Expect(got).To(Equal(where), text)
	}
}

func TestTracker_RequeuesForNextObject(t *testing.T) {
	w := newTracker()
	w.results[objectRef{key: types.NamespacedName{Name: "long ago"}}] = reconcileResult{due: time.Now().Add(time.Minute), after: time.Hour}
	w.results[objectRef{key: types.NamespacedName{Name: "just now"}}] = reconcileResult{due: time.Now().Add(10 * time.Minute), after: 10 * time.Minute}
	w.results[objectRef{key: types.NamespacedName{Name: "past"}}] = reconcileResult{due: time.Now().Add(-time.Minute), after: time.Second}
	w.results[objectRef{key: types.NamespacedName{Name: "never"}}] = reconcileResult{}
	NewWithT(t).Expect(w.requeue()).To(Equal(time.Hour))
}

// A handler that sets a status field and a handler that watches the field reach the same state after every fault.
func TestCheck_ChainOfStatusFields(t *testing.T) {
	for name, flush := range map[string]bool{"without Flush": false, "with Flush": true} {
		t.Run(name, func(t *testing.T) {
			set := func(ctx context.Context, req *podRequest, to string) error {
				if req.Object.Status.Message = to; flush {
					return req.Flush(ctx)
				}
				return nil
			}
			chain := func(r *kopf.Resource[*corev1.Pod], _ *cloud) {
				r.OnCreate("create", func(ctx context.Context, req *podRequest) error { return set(ctx, req, "A") }).
					OnField("next", "status.message", func(ctx context.Context, req *podRequest) error {
						_, now := req.Field()
						return set(ctx, req, map[any]string{"A": "B", "B": "C", "C": "C"}[now])
					})
			}
			Check(t, func() Scenario {
				scenario := scenarioOf(chain)()
				scenario.Steps = append([]func(testing.TB, *Cluster){func(t testing.TB, c *Cluster) {
					pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "orders"}}
					if c.Get(t, pod); pod.Status.Message != "C" {
						t.Errorf("got the final message %q, want C", pod.Status.Message)
					}
				}}, scenario.Steps...)
				return scenario
			})
		})
	}
}
