package kopf_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

type deployment = *appsv1.Deployment

// servedKinds hides kinds in the discovery of a cluster in memory, and counts the discoveries.
type servedKinds struct {
	next         http.RoundTripper
	mu           sync.Mutex
	hidden       []string
	withoutVerbs []string
	discoveries  int
}

func newServedKinds(cluster *kopftest.Cluster) *servedKinds {
	s := &servedKinds{next: cluster.Config.Transport}
	cluster.Config.Transport = s
	return s
}

func (s *servedKinds) hide(kinds ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden = kinds
}

// dropVerbs makes kinds that can only be created.
func (s *servedKinds) dropVerbs(kinds ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.withoutVerbs = kinds
}

func (s *servedKinds) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.discoveries
}

// RoundTrip implements [http.RoundTripper].
func (s *servedKinds) RoundTrip(r *http.Request) (*http.Response, error) {
	path := strings.Trim(r.URL.Path, "/")
	response, err := s.next.RoundTrip(r)
	if path == "apis" {
		s.mu.Lock()
		s.discoveries++
		s.mu.Unlock()
	}
	if err != nil || path != "api/v1" && (!strings.HasPrefix(path, "apis/") || strings.Count(path, "/") != 2) {
		return response, err
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close()
	list := metav1.APIResourceList{}
	if json.Unmarshal(text, &list) == nil && list.Kind == "APIResourceList" {
		s.mu.Lock()
		for i := range list.APIResources {
			if slices.Contains(s.withoutVerbs, list.APIResources[i].Kind) {
				list.APIResources[i].Verbs = metav1.Verbs{"create"}
			}
		}
		list.APIResources = slices.DeleteFunc(list.APIResources, func(r metav1.APIResource) bool { return slices.Contains(s.hidden, r.Kind) })
		s.mu.Unlock()
		if text, err = json.Marshal(list); err != nil {
			return nil, err
		}
		response.ContentLength = int64(len(text))
	}
	response.Body = io.NopCloser(bytes.NewReader(text))
	return response, nil
}

func newDeployment() deployment {
	labels := map[string]string{"app": "a"}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
	}}
}

func forbidden(resource string) []kopftest.Fault {
	return []kopftest.Fault{
		{Verb: "list", Resource: resource, Times: -1, Code: http.StatusForbidden}, {Verb: "watch", Resource: resource, Times: -1, Code: http.StatusForbidden},
	}
}

func ignoreDeployment(context.Context, *kopf.Request[deployment]) error { return nil }

// A kind that comes back is handled again, also with changes of related objects. A kind that is gone leaves nothing behind.
func TestWhenServed_ComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newDeployment(), newConfigMap("related")))
		kinds := newServedKinds(cluster)
		kinds.hide("Deployment")
		var mapped, handled atomic.Int32
		cluster.Run(t, kopf.For(&appsv1.Deployment{}, kopf.WhenServed()).
			OnReconcile("count", func(context.Context, *kopf.Request[deployment]) error { handled.Add(1); return nil }).
			Watches(&corev1.ConfigMap{}, func(context.Context, client.Object) []reconcile.Request {
				mapped.Add(1)
				return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(newDeployment())}}
			}))
		edits := 0
		edit := func() {
			edits++
			kopftest.Edit(t, cluster, newConfigMap("related"), func(obj configMap) { obj.Data = map[string]string{"edit": fmt.Sprint(edits)} })
			<-time.After(time.Minute)
		}
		for round := range int32(3) {
			edit()
			if mapped.Load() != 2*round || handled.Load() != 2*round {
				t.Fatalf("round %d, while the kind is not served: the map function was called %d times, the handler %d times, want %d times each", round, mapped.Load(), handled.Load(), 2*round)
			}
			kinds.hide()
			<-time.After(time.Minute)
			edit()
			if mapped.Load() != 2*(round+1) || handled.Load() != 2*(round+1) {
				t.Fatalf("round %d: the map function was called %d times, the handler %d times, want %d times each", round, mapped.Load(), handled.Load(), 2*(round+1))
			}
			kinds.hide("Deployment")
			<-time.After(time.Minute)
		}
	})
}

// An ended engine must not stay in memory after its daemons have returned. Only a shard needs it until then.
func TestWhenServed_ForgetsEndedEngines(t *testing.T) {
	for name, c := range map[string]struct {
		options []kopf.Option
		want    int // while the last daemon has not returned
	}{
		"without sharding": {nil, 0},
		"with sharding":    {[]kopf.Option{serverSide(0, 1)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := kopftest.Memory(t, kopftest.Objects(newDeployment()))
				kinds := newServedKinds(cluster)
				mgr := newShardManager(t, cluster)
				operator := kopf.New(mgr, append(c.options, kopf.For(&appsv1.Deployment{}, kopf.WhenServed()).
					Daemon("daemon", daemons.Daemon{CancellationTimeout: new(time.Second)}, func(ctx context.Context, _ *kopf.Request[deployment]) error {
						<-ctx.Done()
						<-time.After(3 * time.Minute) // it ignores its CancellationTimeout
						return nil
					}))...)
				if err := mgr.Add(operator); err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- mgr.Start(ctx) }()
				for round := range 2 {
					kinds.hide()
					<-time.After(4 * time.Minute)
					kinds.hide("Deployment")
					<-time.After(time.Minute)
					if got := kopf.UnfinishedEngines(operator); got != c.want {
						t.Errorf("round %d: %d engines are stored, want %d", round, got, c.want)
					}
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				<-time.After(4 * time.Minute)
			})
		})
	}
}

// Missing permissions for a kind, or for a related kind of it, block no other kind. Readyz names the kind.
func TestWhenServed_WithoutPermissions(t *testing.T) {
	for resource, name := range map[string]string{"deployments": "the kind", "secrets": "a related kind"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &notes{}
				cluster := kopftest.Memory(t, kopftest.Objects(newDeployment(), newConfigMap("fixed"), newService("other")))
				kinds := newServedKinds(cluster)
				var operator *kopf.Operator
				running := cluster.RunManager(t, func(mgr manager.Manager) error {
					operator = kopf.New(mgr,
						kopf.For(&appsv1.Deployment{}, kopf.WhenServed()).OnReconcile("blocked", ignoreDeployment).Owns(&corev1.Secret{}),
						kopf.For(&corev1.Service{}, kopf.WhenServed()).OnCreate("other", func(context.Context, *kopf.Request[*corev1.Service]) error { n.add("other"); return nil }),
						kopf.For(&corev1.ConfigMap{}).OnCreate("fixed", func(context.Context, *kopf.Request[configMap]) error { n.add("fixed"); return nil }))
					return mgr.Add(operator)
				})
				running.InjectFaults(forbidden(resource)...)
				for range 300 {
					<-time.After(time.Second)
					if err := operator.Readyz(nil); err == nil || !strings.Contains(err.Error(), "Deployment") && !strings.Contains(err.Error(), "discover") {
						t.Fatalf("Readyz = %v, want an error that names the kind", err)
					}
				}
				if got := n.sorted(); !slices.Equal(got, []string{"fixed", "other"}) {
					t.Errorf("calls = %q, want those of the other kinds", got)
				}
				kinds.hide("Deployment")
				before := kinds.count()
				<-time.After(2 * time.Minute)
				if n := kinds.count() - before; n > 30 {
					t.Errorf("got %d discoveries in the two minutes after a failed kind has disappeared, want at most 30", n)
				}
				if err := operator.Readyz(nil); err != nil {
					t.Errorf("Readyz = %v, want none for a kind that is not served", err)
				}
			})
		})
	}
}

// A kind that is served without list and watch blocks no other kind. Readyz and the metric report it.
func TestWhenServed_NotWatchable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notes{}
		cluster := kopftest.Memory(t, kopftest.Objects(newDeployment(), newService("other")))
		newServedKinds(cluster).dropVerbs("Deployment")
		var operator *kopf.Operator
		cluster.RunManager(t, func(mgr manager.Manager) error {
			operator = kopf.New(mgr, kopf.For(&appsv1.Deployment{}, kopf.WhenServed()).OnReconcile("never", ignoreDeployment),
				kopf.For(&corev1.Service{}, kopf.WhenServed()).OnCreate("other", func(context.Context, *kopf.Request[*corev1.Service]) error { n.add("other"); return nil }))
			return mgr.Add(operator)
		})
		<-time.After(time.Minute)
		if err := operator.Readyz(nil); err == nil || !strings.Contains(err.Error(), "Deployment") || !strings.Contains(err.Error(), "cannot list or watch the kind") {
			t.Errorf("Readyz = %v, want an error that names the kind", err)
		}
		if got := n.sorted(); !slices.Equal(got, []string{"other"}) {
			t.Errorf("calls = %q, want those of the other kind", got)
		}
		if got := gauges(t, "kopf_dynamic_kinds"); got["failed"] != 1 || got["served"] != 1 || got["waiting"] != 0 {
			t.Errorf("kopf_dynamic_kinds = %v, want failed: 1, served: 1, waiting: 0", got)
		}
	})
}

func newService(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}}}
}

// Two versions of a kind have the same objects, so only one of them is handled.
func TestForKinds_OtherVersionOfDeclaredKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notes{}
		operator := kopftest.Memory(t).Run(t, kopf.ForKinds(kopf.Kinds("horizontalpodautoscalers.v2.autoscaling"), func(kind metav1.APIResource) kopf.Option {
			n.add(kind.Version)
			return n.declare(kind)
		}), kopf.For(&autoscalingv1.HorizontalPodAutoscaler{}).OnCreate("create", func(context.Context, *kopf.Request[*autoscalingv1.HorizontalPodAutoscaler]) error { return nil }))
		operator.RunUntilQuiet(t)
		if got := n.sorted(); len(got) > 0 {
			t.Errorf("ForKinds has declared the versions %q of a kind that For declares", got)
		}
	})
}

// Handlers of a kind at run time see complete indexes of fixed kinds.
func TestWhenServed_WaitsForIndexes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newSecret("key"), newConfigMap("one")))
		secrets := kopf.For(&corev1.Secret{})
		index := kopf.IndexBy(secrets, "names", func(_ context.Context, req *kopf.Request[*corev1.Secret]) (map[string]string, error) {
			return map[string]string{req.Object.Name: "v"}, nil
		})
		entries := -1
		operator := cluster.Run(t, secrets, kopf.For(&corev1.ConfigMap{}, kopf.WhenServed()).OnCreate("create", func(context.Context, *kopf.Request[configMap]) error {
			entries = index.Len()
			return nil
		}))
		operator.InjectFaults(kopftest.Fault{Verb: "list", Resource: "secrets", Delay: 10 * time.Second}, kopftest.Fault{Verb: "watch", Resource: "secrets", Delay: 10 * time.Second})
		operator.RunUntilQuiet(t)
		if entries != 1 {
			t.Errorf("the handler has seen %d entries, want 1", entries)
		}
	})
}

func TestForKinds_ChecksStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notes{}
		operator := kopftest.Memory(t, kopftest.Objects(newDeployment())).Run(t, kopf.WithProgress(progress.Status("")), kopf.WithBaseline(progress.StatusBaseline("")),
			kopf.ForKinds(kopf.Kinds("deployments.apps"), n.declare)) // only the metadata, so that the status cannot be read
		operator.RunUntilQuiet(t)
		if got := n.sorted(); len(got) > 0 {
			t.Errorf("calls = %q, want none: the declaration is invalid", got)
		}
	})
}

func TestWhenServed_Errors(t *testing.T) {
	triggers := source.Channel(make(chan event.GenericEvent), &handler.EnqueueRequestForObject{})
	wantErrorOf(t, []kopf.Option{kopf.For(&appsv1.Deployment{}, kopf.WhenServed()).OnReconcile("r", ignoreDeployment).TriggerFrom(triggers)},
		[]string{"Deployment: TriggerFrom is not possible with WhenServed and ForKinds", "use Operator.Enqueue"})
}
