package kopf_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	peeringv1 "github.com/kopf-runtime/kopf-runtime/pkg/peering/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
)

var (
	shardLabel = sharding.ShardLabel("maps")
	drainLabel = sharding.DrainLabel("maps")
	mapsRing   = kopf.WithSharding(sharding.ControllerRing("maps", sharding.ShardName("one"), sharding.LeaseNamespace("default")))
)

// shardCluster returns a cluster whose ring contains the given resources of the core group. Without resources, it has no ring.
func shardCluster(t *testing.T, resources ...string) *kopftest.Cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.ConfigMap{}, &corev1.ConfigMapList{}, &corev1.Secret{}, &corev1.SecretList{})
	scheme.AddKnownTypes(coordinationv1.SchemeGroupVersion, &coordinationv1.Lease{}, &coordinationv1.LeaseList{})
	gv := schema.GroupVersion{Group: "sharding.timebertt.dev", Version: "v1alpha1"}
	for _, one := range []schema.GroupVersion{corev1.SchemeGroupVersion, coordinationv1.SchemeGroupVersion} {
		metav1.AddToGroupVersion(scheme, one)
	}
	c := kopftest.Memory(t, kopftest.Types(scheme), kopftest.CRDs("../../test/sharder/crd", "../../config/crd"))
	if len(resources) == 0 {
		return c
	}
	var listed []any
	for _, resource := range resources {
		listed = append(listed, map[string]any{"group": "", "resource": resource})
	}
	obj := kopf.Unstructured(gv.WithKind("ControllerRing"))
	obj.SetName("maps")
	obj.Object["spec"] = map[string]any{"resources": listed}
	c.Create(t, obj)
	return c
}

func assigned(name, shard string) configMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{shardLabel: shard}}}
}

func label(t *testing.T, c *kopftest.Cluster, obj configMap, key string, value any) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value))
	if value == nil {
		patch = client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, key))
	}
	if err := c.Client.Patch(t.Context(), obj.DeepCopy(), patch); err != nil {
		t.Fatal(err)
	}
}

func TestWithSharding_InvalidDeclarations(t *testing.T) {
	maps := func() *kopf.Resource[configMap] {
		return kopf.For(&corev1.ConfigMap{}).OnCreate("create", func(context.Context, *kopf.Request[configMap]) error { return nil })
	}
	indexed := maps()
	kopf.IndexBy(indexed, "byName", func(context.Context, *kopf.Request[configMap]) (map[string]int, error) { return nil, nil })
	secrets := kopf.For(&corev1.Secret{}).OnReconcile("sync", func(context.Context, *kopf.Request[*corev1.Secret]) error { return nil }).Owns(&corev1.ConfigMap{})
	for name, c := range map[string]struct {
		options []kopf.Option
		want    string
	}{
		"a ring without a name": {[]kopf.Option{maps(), kopf.WithSharding(sharding.Ring{})}, "create it with ControllerRing"},
		"an index":              {[]kopf.Option{indexed, mapsRing}, `IndexBy("byName"): with WithSharding, the index would contain only the objects of one replica`},
		"peering":               {[]kopf.Option{maps(), mapsRing, kopf.WithPeering(peering.Options{})}, "pause each other: set Tie to peering.Share"},
		"no durations":          {[]kopf.Option{maps(), mapsRing, kopf.WithLeaseDurations(0, 0, 0)}, "remove WithLeaseDurations(0, 0, 0)"},
		"a related kind":        {[]kopf.Option{maps(), secrets, mapsRing}, "Owns(ConfigMap): the kind is also sharded"},
		"no namespace": {
			[]kopf.Option{maps(), kopf.WithSharding(sharding.ControllerRing("maps", sharding.ShardName("one")))}, "use sharding.LeaseNamespace",
		},
		"an invalid shard": {
			[]kopf.Option{maps(), kopf.WithSharding(sharding.ControllerRing("maps", sharding.ShardName("One"), sharding.LeaseNamespace("default")))}, "use sharding.ShardName",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := shardCluster(t, "configmaps")
			err := kopf.New(newShardManager(t, cluster), c.options...).CheckDeclaration()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("CheckDeclaration() = %v, want %q", err, c.want)
			}
		})
	}
}

func newShardManager(t *testing.T, c *kopftest.Cluster) manager.Manager {
	t.Helper()
	mgr, err := manager.New(c.Config, manager.Options{Scheme: c.Scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

// runShard runs an operator until stop is called, which returns the error of its manager.
func runShard(t *testing.T, c *kopftest.Cluster, options ...kopf.Option) (stop func() error) {
	t.Helper()
	mgr := newShardManager(t, c)
	if err := kopf.SetupWithManager(mgr, options...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	return func() error { cancel(); return <-ended }
}

func TestWithSharding_StartErrors(t *testing.T) {
	ok := func(context.Context, *kopf.Request[configMap]) error { return nil }
	maps := func() kopf.Option { return kopf.For(&corev1.ConfigMap{}).OnCreate("create", ok) }
	for name, c := range map[string]struct {
		cluster func(t *testing.T) *kopftest.Cluster
		want    string
	}{
		"no ring":    {func(t *testing.T) *kopftest.Cluster { return shardCluster(t) }, `the ControllerRing "maps" does not exist: create it`},
		"no sharder": {func(t *testing.T) *kopftest.Cluster { return kopftest.Memory(t) }, "install kubernetes-controller-sharding"},
		"a ring without the kind": {
			func(t *testing.T) *kopftest.Cluster { return shardCluster(t, "secrets") }, `add {group: "", resource: "configmaps"} to spec.resources`,
		},
		"an unreadable ring": {
			func(t *testing.T) *kopftest.Cluster {
				c := shardCluster(t, "configmaps")
				interceptPaths(c, "/controllerrings/", interception{code: http.StatusInternalServerError})
				return c
			}, `WithSharding: reading the ControllerRing "maps": `,
		},
		"a Lease for another purpose": {
			func(t *testing.T) *kopftest.Cluster {
				c := shardCluster(t, "configmaps")
				c.Create(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("other")}})
				return c
			}, "its name is used for another purpose",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stop := runShard(t, c.cluster(t), maps(), mapsRing)
				<-time.After(time.Minute)
				if err := stop(); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error = %v, want %q", err, c.want)
				}
			})
		})
	}
}

// A second process with the name of a shard does not start, and the first one continues.
func TestWithSharding_TwoProcessesWithOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := shardCluster(t, "configmaps"), &texts{}
		maps := func(by string) kopf.Option { return kopf.For(&corev1.ConfigMap{}).OnCreate(by, log.handler(by)) }
		first := runShard(t, c, maps("first"), mapsRing)
		<-time.After(time.Minute)
		second := runShard(t, c, maps("second"), mapsRing)
		<-time.After(time.Minute)
		if err := second(); err == nil || !strings.Contains(err.Error(), `two processes are the shard "one"`) {
			t.Errorf("error = %v, want an error about the name", err)
		}
		c.Create(t, assigned("a", "one"))
		expectTexts(t, log, "first default/a")
		if err := first(); err != nil {
			t.Error(err)
		}
	})
}

// shardLog records all that happens to the objects of a shard.
func shardLog(log *texts) *kopf.Resource[configMap] {
	return kopf.For(&corev1.ConfigMap{}, kopf.WithPredicates(predicate.GenerationChangedPredicate{})).
		OnCreate("create", log.handler("create")).
		OnUpdate("update", log.handler("update")).
		OnResume("resume", log.handler("resume")).
		OnDelete("delete", log.handler("delete"), kopf.Optional()).
		OnEvent("event", func(_ context.Context, req *kopf.Request[configMap]) error {
			if req.Event == "DELETED" {
				log.addf("deleted %s", req.Object.Name)
			}
			return nil
		}).
		Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, req *kopf.Request[configMap]) error {
			log.addf("daemon of %s begins", req.Object.Name)
			<-ctx.Done()
			<-time.After(5 * time.Second)
			req.Object.Data = map[string]string{"daemon": "ended"}
			log.addf("daemon of %s ends: %t", req.Object.Name, errors.Is(context.Cause(ctx), daemons.ErrOutOfScope))
			return nil
		})
}

// shardMetrics are the values of the metrics of a shard. Drains are counted since the start of the test process.
type shardMetrics struct {
	objects, draining float64
	drains            uint64
	drainSeconds      float64
	renewed           time.Time // zero if the process does not hold the Lease
}

func readShardMetrics(t *testing.T) (m shardMetrics) {
	t.Helper()
	read := func(collector any) *dto.Metric {
		var value dto.Metric
		if err := collector.(prometheus.Metric).Write(&value); err != nil {
			t.Fatal(err)
		}
		return &value
	}
	drains := read(metrics.DrainDuration.WithLabelValues("configmap")).GetHistogram()
	m.objects = read(metrics.Objects.WithLabelValues("configmap")).GetGauge().GetValue()
	m.draining = read(metrics.DrainingObjects.WithLabelValues("configmap")).GetGauge().GetValue()
	m.drains, m.drainSeconds = drains.GetSampleCount(), drains.GetSampleSum()
	if seconds := read(metrics.ShardLeaseRenewed.WithLabelValues("maps")).GetGauge().GetValue(); seconds > 0 {
		m.renewed = time.Unix(int64(seconds), 0)
	}
	return m
}

func TestWithSharding_Metrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := shardCluster(t, "configmaps"), &texts{}
		stop := runShard(t, c, shardLog(log), mapsRing)
		a, b := assigned("a", "one"), assigned("b", "one")
		c.Create(t, a, b, assigned("c", "two"))
		<-time.After(time.Minute)
		first := readShardMetrics(t)
		if first.objects != 2 || first.draining != 0 {
			t.Errorf("objects = %v, draining = %v, want the 2 objects of the shard and no drain", first.objects, first.draining)
		}
		if age := time.Since(first.renewed); age > 4*time.Second {
			t.Errorf("the Lease was renewed %s ago, want the last renewal", age)
		}

		label(t, c, a, drainLabel, "true")
		label(t, c, b, drainLabel, "true")
		<-time.After(2 * time.Second)
		label(t, c, b, shardLabel, nil) // a user removes the label, so that the drain of this object does not end
		<-time.After(2 * time.Second)
		if m := readShardMetrics(t); m.draining != 1 || m.drains != first.drains {
			t.Errorf("draining = %v, completed = %d, want 1 drain that waits for a daemon", m.draining, m.drains-first.drains)
		}
		<-time.After(time.Minute)
		last := readShardMetrics(t)
		if last.objects != 0 || last.draining != 0 || last.drains != first.drains+1 {
			t.Errorf("objects = %v, draining = %v, completed = %d, want no objects and 1 completed drain", last.objects, last.draining, last.drains-first.drains)
		}
		if seconds := last.drainSeconds - first.drainSeconds; seconds < 5 || seconds > 6 {
			t.Errorf("the drain took %v s, want the 5 s of the daemon", seconds)
		}

		label(t, c, a, shardLabel, "one")
		<-time.After(time.Minute)
		label(t, c, a, drainLabel, "true")
		<-time.After(time.Second)
		label(t, c, a, drainLabel, nil) // the sharder no longer exists, and a user removes its label
		<-time.After(time.Minute)
		if m := readShardMetrics(t); m.draining != 0 || m.drains != last.drains {
			t.Errorf("draining = %v, completed = %d, want no drain after the removal of the label", m.draining, m.drains-last.drains)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if m := readShardMetrics(t); !m.renewed.IsZero() {
			t.Errorf("the Lease was renewed at %s, want no Lease after a graceful stop", m.renewed)
		}
	})
}

func TestWithSharding_MovesObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := shardCluster(t, "configmaps"), &texts{}
		stop := runShard(t, c, shardLog(log), mapsRing)
		a, other := assigned("a", "one"), assigned("b", "two")
		c.Create(t, a, other)
		expectTexts(t, log, "create default/a, daemon of a begins")

		label(t, c, a, drainLabel, "true")
		<-time.After(4 * time.Second)
		c.Get(t, a)
		if a.Labels[shardLabel] != "one" {
			t.Error("the object is released before its daemon has ended")
		}
		expectTexts(t, log, "daemon of a ends: true")
		if c.Get(t, a); len(a.Labels) > 0 || a.Data["daemon"] != "ended" || len(a.Finalizers) == 0 {
			t.Errorf("labels = %v, data = %v, finalizers = %v; want no labels, the last change of the daemon, and the finalizer", a.Labels, a.Data, a.Finalizers)
		}
		version := a.ResourceVersion
		<-time.After(10 * time.Minute)
		if c.Get(t, a); a.ResourceVersion != version {
			t.Error("the released object has been written")
		}

		label(t, c, a, shardLabel, "one") // it returns, and the update is about the last change of the daemon
		expectTexts(t, log, "daemon of a begins, resume default/a, update default/a")

		label(t, c, a, shardLabel, nil) // by hand
		expectTexts(t, log, "daemon of a ends: true")
		if c.Get(t, a); len(a.Finalizers) == 0 {
			t.Error("an object without the label has lost its finalizer")
		}
		label(t, c, a, shardLabel, "one")
		expectTexts(t, log, "daemon of a begins, resume default/a")
		if err := stop(); err != nil {
			t.Error(err)
		}
		expectTexts(t, log, "daemon of a ends: false")
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
		if c.Get(t, lease); *lease.Spec.HolderIdentity != "" {
			t.Errorf("holder after a graceful stop = %q, want none", *lease.Spec.HolderIdentity)
		}
	})
}

// Shards with peering.Share don't pause each other. While a peer with a higher priority pauses them, they write nothing, and release
// objects afterwards.
func TestWithSharding_Peering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := shardCluster(t, "configmaps"), &texts{}
		meeting := kopf.Unstructured(peeringv1.GroupVersion.WithKind("ClusterKopfPeering"))
		meeting.SetName("default")
		c.Create(t, meeting)
		record := func(name, value string) {
			t.Helper()
			patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"status":{%q:%s}}`, name, value))
			if err := c.Client.Patch(t.Context(), meeting.DeepCopy(), patch); err != nil {
				t.Fatal(err)
			}
		}
		record("two", `{"priority":0,"lifetime":86400,"lastseen":"2099-01-01T00:00:00"}`)
		stop := runShard(t, c, shardLog(log), mapsRing, kopf.WithPeering(peering.Options{Identity: "one", Tie: peering.Share}))
		a := assigned("a", "one")
		c.Create(t, a)
		expectTexts(t, log, "create default/a, daemon of a begins")

		record("laptop", `{"priority":1,"lifetime":86400,"lastseen":"2099-01-01T00:00:00"}`)
		expectTexts(t, log, "daemon of a ends: false")
		label(t, c, a, drainLabel, "true")
		<-time.After(time.Minute)
		if c.Get(t, a); len(a.Labels) != 2 {
			t.Errorf("labels = %v, want both labels during the pause", a.Labels)
		}
		record("laptop", "null")
		<-time.After(10 * time.Second)
		if c.Get(t, a); len(a.Labels) > 0 {
			t.Errorf("labels = %v, want the object to be released after the pause", a.Labels)
		}
		label(t, c, a, shardLabel, "one")
		expectTexts(t, log, "daemon of a begins, resume default/a, update default/a")
		if err := stop(); err != nil {
			t.Error(err)
		}
		expectTexts(t, log, "daemon of a ends: false")
	})
}

// Labels of a ring are no updates, also for an operator without sharding.
func TestWithSharding_LabelsAreNoChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := shardCluster(t), &texts{}
		a := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		c.Create(t, a)
		stop := runShard(t, c, kopf.For(&corev1.ConfigMap{}).OnUpdate("update", log.handler("update")))
		expectTexts(t, log, "")
		label(t, c, a, shardLabel, "one")
		expectTexts(t, log, "")
		label(t, c, a, "other", "one")
		expectTexts(t, log, "update default/a")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// Kinds with only indexes, and related kinds, are not restricted to the objects of the shard.
func TestWithSharding_OtherKindsAreWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := shardCluster(t, "configmaps"), &texts{}
		secrets := kopf.For(&corev1.Secret{})
		index := kopf.IndexBy(secrets, "byName", func(_ context.Context, req *kopf.Request[*corev1.Secret]) (map[string]int, error) {
			return map[string]int{req.Object.Name: 1}, nil
		})
		c.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "t"}})
		stop := runShard(t, c, secrets, mapsRing, kopf.For(&corev1.ConfigMap{}).OnCreate("create", func(_ context.Context, req *kopf.Request[configMap]) error {
			log.addf("%s: %d %d", req.Object.Name, len(index.Get("s")), len(index.Get("t")))
			return nil
		}))
		c.Create(t, assigned("a", "one"), assigned("b", "two"))
		expectTexts(t, log, "a: 1 1")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A shard that cannot reach the API server ends with an error before others can handle its objects.
func TestWithSharding_LostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := shardCluster(t, "configmaps"), &texts{}
		var cut atomic.Bool
		intercept(c, func(*http.Request) interception {
			if cut.Load() {
				return interception{code: http.StatusServiceUnavailable}
			}
			return interception{}
		})
		mgr := newShardManager(t, c)
		hangs := kopf.For(&corev1.ConfigMap{}).OnCreate("create", func(ctx context.Context, req *kopf.Request[configMap]) error {
			<-ctx.Done()
			log.addf("cancelled %s", req.Object.Name)
			<-time.After(time.Minute) // it ignores its context
			req.Object.Data = map[string]string{"late": "change"}
			return nil
		})
		ended := startShard(t, mgr, hangs)
		a := assigned("a", "one")
		c.Create(t, a)
		<-time.After(time.Minute)
		cut.Store(true)
		began := time.Now()
		err := <-ended
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "the shard has lost its Lease") || took > 15*time.Second {
			t.Errorf("error after %s = %v, want an error about the Lease within the lease duration", took, err)
		}
		if m := readShardMetrics(t); !m.renewed.IsZero() {
			t.Errorf("the Lease was renewed at %s, want no Lease after its loss", m.renewed)
		}
		cut.Store(false)
		expectTexts(t, log, "cancelled a")
		<-time.After(time.Minute)
		if c.Get(t, a); len(a.Data) > 0 {
			t.Error("a handler that ignores its context has written after the loss of the Lease")
		}
	})
}

// startShard starts a shard of mapsRing. The returned channel receives the error with which its manager ends.
func startShard(t *testing.T, mgr manager.Manager, kind kopf.Option) (ended chan error) {
	t.Helper()
	if err := kopf.SetupWithManager(mgr, kind, mapsRing); err != nil {
		t.Fatal(err)
	}
	ended = make(chan error, 1)
	go func() { ended <- mgr.Start(t.Context()) }()
	return ended
}

// Another process can handle the objects as soon as the sharder holds the Lease, so the shard must not write the outcomes of its running handlers.
func TestWithSharding_TakenLease(t *testing.T) {
	for name, take := range map[string]func(ctx context.Context, c client.Client, lease *coordinationv1.Lease) error{
		"by the sharder": func(ctx context.Context, c client.Client, lease *coordinationv1.Lease) error {
			lease.Spec.HolderIdentity = new("shardlease-controller")
			return c.Update(ctx, lease)
		},
		"deleted": func(ctx context.Context, c client.Client, lease *coordinationv1.Lease) error {
			return c.Delete(ctx, lease)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, log := shardCluster(t, "configmaps"), &texts{}
				mgr := newShardManager(t, c)
				slow := kopf.For(&corev1.ConfigMap{}).OnCreate("create", func(ctx context.Context, req *kopf.Request[configMap]) error {
					<-ctx.Done()
					<-time.After(5 * time.Second)
					log.addf("create of %s ends", req.Object.Name)
					req.Object.Data = map[string]string{"late": "change"}
					return nil
				}).Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, req *kopf.Request[configMap]) error {
					<-ctx.Done()
					log.addf("daemon of %s ends", req.Object.Name)
					req.Object.Data = map[string]string{"daemon": "change"}
					return nil
				})
				ended := startShard(t, mgr, slow)
				a, lease := assigned("a", "one"), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
				c.Create(t, a)
				<-time.After(time.Minute)
				for tried := 0; ; tried++ { // the shard renews its Lease concurrently
					if c.Get(t, lease); take(t.Context(), c.Client, lease) == nil {
						break
					} else if tried > 5 {
						t.Fatal("the Lease cannot be taken")
					}
				}
				began := time.Now()
				c.Get(t, a)
				version := a.ResourceVersion
				err := <-ended
				if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "the shard has lost its Lease") || took > 3*time.Second {
					t.Errorf("error after %s = %v, want an error about the Lease at the next renewal", took, err)
				}
				expectTexts(t, log, "create of a ends, daemon of a ends")
				if c.Get(t, a); a.ResourceVersion != version {
					t.Errorf("the object was written after the loss of the Lease: data = %v, annotations = %v", a.Data, a.Annotations)
				}
			})
		})
	}
}

// stuckRequest is a request that ignores its context, for example because it waits for a credential plugin.
type stuckRequest time.Duration

func (d stuckRequest) RoundTrip(*http.Request) (*http.Response, error) {
	<-time.After(time.Duration(d))
	return nil, errors.New("no connection")
}

// A request for the Leases of other shards must not delay the end of a shard that has lost its own Lease.
func TestWithSharding_LostLeaseDuringAStuckRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := shardCluster(t, "configmaps")
		var cut atomic.Bool
		intercept(c, func(r *http.Request) interception {
			switch {
			case !cut.Load():
			case strings.HasSuffix(r.URL.Path, "/leases"):
				return interception{next: stuckRequest(5 * time.Minute)}
			case strings.HasSuffix(r.URL.Path, "/leases/one"):
				return interception{code: http.StatusServiceUnavailable}
			}
			return interception{}
		})
		mgr := newShardManager(t, c)
		ended := startShard(t, mgr, shardLog(&texts{}))
		<-time.After(time.Minute)
		cut.Store(true)
		began := time.Now()
		err := <-ended
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "the shard has lost its Lease") || took > 15*time.Second {
			t.Errorf("error after %s = %v, want an error about the Lease within the lease duration", took, err)
		}
		<-time.After(5 * time.Minute)
	})
}

func TestWriteRights_WithSharding(t *testing.T) {
	maps := kopf.For(&corev1.ConfigMap{}).OnEvent("event", func(context.Context, *kopf.Request[configMap]) error { return nil })
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.ConfigMap{})
	var out bytes.Buffer
	if err := kopf.WriteRights(&out, scheme, rights.Options{Name: "maps"}, maps, mapsRing); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sharding: the Lease of the shard", "controllerrings", "sharding: the labels of released objects", "namespace: default"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the roles lack %q:\n%s", want, &out)
		}
	}
	ring := kopf.WithSharding(sharding.ControllerRing("maps", sharding.ShardName("one")))
	if err := kopf.WriteRights(&out, scheme, rights.Options{Name: "maps"}, maps, ring); err == nil || !strings.Contains(err.Error(), "the Leases of the shards") {
		t.Errorf("error = %v, want one about the namespace", err)
	}
}
