package simulation

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/children"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

const (
	relatedWidgets = 4
	relatedSources = 3
	relatedSteps   = 40
)

var relatedSeeds = flag.Uint64("related", 20, "number of simulations with related objects")

// relatedScheme has widgets and ConfigMaps.
func relatedScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.ConfigMap{}, &corev1.ConfigMapList{})
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	return scheme
}

func newMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string]string{"value": value}}
}

// copySource keeps Size children with the value of the source that the color names, and of the ConfigMap "common".
func copySource(ctx context.Context, req *kopf.Request[widget]) error {
	source, common := newMap(req.Object.Spec.Color, ""), newMap("common", "")
	if err := req.Track(ctx, source); client.IgnoreNotFound(err) != nil {
		return err
	}
	if err := req.Client.Get(ctx, client.ObjectKeyFromObject(common), common); client.IgnoreNotFound(err) != nil {
		return err
	}
	var parts []client.Object
	for i := range req.Object.Spec.Size {
		part := newMap(fmt.Sprintf("%s-part-%d", req.Object.Name, i), source.Data["value"]+common.Data["value"])
		part.Namespace = ""
		parts = append(parts, part)
	}
	_, err := children.Of(req.Object, req.Client, children.FieldOwner("test")).Set("parts", &corev1.ConfigMap{}).Apply(ctx, parts...)
	return err
}

// relatedOperator returns the resource of the simulations: children, a tracked source and a watched one.
func relatedOperator() *kopf.Resource[widget] {
	all := func(_ context.Context, obj client.Object) (requests []reconcile.Request) {
		for i := range relatedWidgets {
			if obj.GetName() == "common" {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: widgetName(i)}})
			}
		}
		return requests
	}
	return kopf.For(&v1.Widget{}).OnReconcile("copy", copySource).Owns(&corev1.ConfigMap{}).Watches(&corev1.ConfigMap{}, all)
}

func widgetName(i int) string { return fmt.Sprintf("widget-%d", i) }
func sourceName(i int) string { return fmt.Sprintf("source-%d", i) }

// relatedFaults are the faults of one start of the operator.
func relatedFaults(random *rand.Rand) (faults []kopftest.Fault) {
	for range random.IntN(4) {
		fault := kopftest.Fault{Verb: []string{"patch", "create", "delete", "get", "list"}[random.IntN(5)], Skip: random.IntN(10), Times: 1 + random.IntN(3)}
		switch random.IntN(3) {
		case 0:
			fault.Lost = true
		case 1:
			fault.Code = []int{409, 429, 500, 503}[random.IntN(4)]
		default:
			fault.Delay = time.Duration(random.IntN(5000)) * time.Millisecond
		}
		faults = append(faults, fault)
	}
	return faults
}

// TestRelated_ChildrenFollowTheSources changes widgets, their sources and their children at random, and crashes and delays the operator. In the end, the
// children must be those of the last state.
func TestRelated_ChildrenFollowTheSources(t *testing.T) {
	for seed := range seeds(*relatedSeeds) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				simulateRelated(t, rand.New(rand.NewPCG(seed, 1)), 12*time.Second)
			})
		})
	}
}

func simulateRelated(t *testing.T, random *rand.Rand, longest time.Duration) {
	cluster := kopftest.Memory(t, kopftest.Types(relatedScheme()))
	start := func() *kopftest.Operator {
		operator := cluster.Run(t, relatedOperator())
		operator.InjectFaults(relatedFaults(random)...)
		return operator
	}
	operator := start()
	for range relatedSteps {
		<-time.After(time.Duration(random.Int64N(int64(longest))))
		if random.IntN(8) == 0 {
			if random.IntN(2) == 0 {
				operator.Crash(t)
			} else {
				operator.Stop(t)
			}
			changeRelated(t, cluster, random)
			operator = start()
			continue
		}
		changeRelated(t, cluster, random)
	}
	operator.RunUntilQuiet(t)
	if got, want := actualParts(t, cluster), wantedParts(t, cluster); !maps.Equal(got, want) {
		t.Errorf("children = %v, want %v", got, want)
	}
}

// changeRelated makes one change of a user.
func changeRelated(t *testing.T, cluster *kopftest.Cluster, random *rand.Rand) {
	t.Helper()
	value, widgetKey := strconv.Itoa(random.IntN(1000)), widgetName(random.IntN(relatedWidgets))
	obj := &v1.Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: widgetKey}, Spec: v1.WidgetSpec{
		Size: random.IntN(4), Color: sourceName(random.IntN(relatedSources)),
	}}
	ignore := func(err error) {
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	overwrite := func(obj client.Object) {
		err := cluster.Client.Create(t.Context(), obj.DeepCopyObject().(client.Object))
		if apierrors.IsAlreadyExists(err) {
			err = cluster.Client.Patch(t.Context(), obj, client.Merge)
		}
		ignore(err)
	}
	source := newMap(sourceName(random.IntN(relatedSources)), value)
	part := newMap(fmt.Sprintf("%s-part-%d", widgetKey, random.IntN(3)), "foreign")
	switch random.IntN(10) {
	case 0, 1, 2:
		overwrite(obj)
	case 3, 4, 5:
		overwrite(source)
	case 6:
		overwrite(newMap("common", value))
	case 7:
		ignore(cluster.Client.Delete(t.Context(), source))
	case 8:
		ignore(cluster.Client.Delete(t.Context(), part))
	default:
		ignore(cluster.Client.Patch(t.Context(), part, client.Merge))
	}
}

func actualParts(t *testing.T, cluster *kopftest.Cluster) map[string]string {
	t.Helper()
	list, parts := &corev1.ConfigMapList{}, map[string]string{}
	must(t, cluster.Client.List(t.Context(), list))
	for _, item := range list.Items {
		if strings.Contains(item.Name, "-part-") {
			parts[item.Name] = item.Data["value"]
		}
	}
	return parts
}

func wantedParts(t *testing.T, cluster *kopftest.Cluster) map[string]string {
	t.Helper()
	maps, values := &corev1.ConfigMapList{}, map[string]string{}
	must(t, cluster.Client.List(t.Context(), maps))
	for _, item := range maps.Items {
		values[item.Name] = item.Data["value"]
	}
	list, parts := &v1.WidgetList{}, map[string]string{}
	must(t, cluster.Client.List(t.Context(), list))
	for _, item := range list.Items {
		for i := range item.Spec.Size {
			parts[fmt.Sprintf("%s-part-%d", item.Name, i)] = values[item.Spec.Color] + values["common"]
		}
	}
	return parts
}

// TestRelated_OneCallForEachReader checks, without faults, that a change of a tracked object calls the handlers of its readers once, and no others.
func TestRelated_OneCallForEachReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Types(relatedScheme()))
		const readers = 50
		for i := range readers {
			cluster.Create(t, &v1.Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: widgetName(i)}, Spec: v1.WidgetSpec{Color: sourceName(i % 2)}})
		}
		calls := make(chan string, 10*readers)
		run := func() *kopftest.Operator {
			operator := cluster.Run(t, kopf.For(&v1.Widget{}).OnReconcile("read", func(ctx context.Context, req *kopf.Request[widget]) error {
				calls <- req.Object.Name
				return client.IgnoreNotFound(req.Track(ctx, newMap(req.Object.Spec.Color, "")))
			}))
			operator.RunUntilQuiet(t)
			return operator
		}
		called := func() (names []string) {
			for len(calls) > 0 {
				names = append(names, <-calls)
			}
			slices.Sort(names)
			return names
		}
		var all, even []string
		for i := range readers {
			if all = append(all, widgetName(i)); i%2 == 0 {
				even = append(even, widgetName(i))
			}
		}
		slices.Sort(all)
		slices.Sort(even)
		operator := run()
		if got := called(); !slices.Equal(got, all) {
			t.Errorf("calls at the start = %v, want each once", got)
		}
		source := func() *corev1.ConfigMap { return newMap(sourceName(0), "a") }
		for step, change := range []func(){
			func() { cluster.Create(t, source()) },
			func() { kopftest.Edit(t, cluster, source(), func(obj *corev1.ConfigMap) { obj.Data["value"] = "b" }) },
			func() { cluster.Delete(t, source()) },
		} {
			change()
			operator.RunUntilQuiet(t)
			if got := called(); !slices.Equal(got, even) {
				t.Errorf("calls after change %d = %v, want each reader once: %v", step, got, even)
			}
		}
		operator.Crash(t)
		cluster.Create(t, source())
		run()
		if got := called(); !slices.Equal(got, all) {
			t.Errorf("calls after the restart = %v, want each once", got)
		}
	})
}
