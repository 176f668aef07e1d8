package monitoring

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
)

// kind is the name of the controller in all series.
const kind = "database"

// targetLabels are the labels that Prometheus adds to the series of a ServiceMonitor.
var targetLabels = []string{"namespace", "service", "pod", "container", "job", "endpoint", "instance"}

// A family has the properties of a metric that expressions use. The labels are those in Prometheus.
type family struct {
	kind   dto.MetricType
	labels []string
	help   string
	values map[string][]string // by label
}

// exposed returns the metrics of an operator. It records a value for each metric of the library, and uses a controller, a client and leader
// election for the other metrics.
func exposed(t testing.TB) []*dto.MetricFamily {
	t.Helper()
	g := NewWithT(t)
	recordOurs()
	runController(t)
	sendRequest(t)
	_, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: "databases-system", Name: "databases"}, LockConfig: resourcelock.ResourceLockConfig{Identity: "a"}},
		Name: "databases", LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	g.Expect(err).NotTo(HaveOccurred())
	var families []*dto.MetricFamily
	g.Eventually(func(g Gomega) {
		families, err = ctrlmetrics.Registry.Gather()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(slices.ContainsFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "controller_runtime_reconcile_time_seconds" })).To(BeTrue())
	}).Should(Succeed())
	return families
}

// recordOurs records values for all metrics of the library.
func recordOurs() {
	for _, outcome := range []string{"succeeded", "ignored", "retried", "failed", "interrupted", "waiting"} {
		metrics.HandlerAttempts.WithLabelValues(kind, "provision", outcome).Inc()
	}
	for _, reason := range []string{"forbidden", "not_served", "rejected", "undecodable", "silent"} {
		metrics.WatchProblems.WithLabelValues(kind, reason).Set(1)
	}
	for _, v := range []*prometheus.CounterVec{metrics.HandlerPanics, metrics.BackgroundAbandoned} {
		v.WithLabelValues(kind, "provision").Inc()
	}
	for _, v := range []*prometheus.CounterVec{
		metrics.WriteConflicts, metrics.OwnWriteWaits, metrics.StaleCacheReads, metrics.UnpostedEvents, metrics.RejectedProgress, metrics.DroppedFields,
		metrics.UnreadableState,
	} {
		v.WithLabelValues(kind).Inc()
	}
	for _, v := range []*prometheus.GaugeVec{metrics.Daemons, metrics.Timers, metrics.TimersDue, metrics.BackgroundUnstopped} {
		v.WithLabelValues(kind, "provision").Set(1)
	}
	metrics.HandlerDuration.WithLabelValues(kind, "provision").Observe(0.5)
	metrics.TimerDrift.WithLabelValues(kind, "provision").Observe(0.5)
	metrics.StoredBytes.WithLabelValues(kind).Observe(2000)
	metrics.UndecodableObjects.WithLabelValues(kind).Set(1)
	metrics.OldestUnhandled.WithLabelValues(kind).Set(1)
	metrics.Objects.WithLabelValues(kind).Set(1)
	metrics.DrainingObjects.WithLabelValues(kind).Set(1)
	metrics.DrainDuration.WithLabelValues(kind).Observe(0.5)
	metrics.ShardLeaseRenewed.WithLabelValues("databases").Set(1)
	metrics.Paused.WithLabelValues("default", "shop").Set(1)
	for _, reason := range []string{"annotation", "loop", "cache", "write", "epoch", "finalizer", "rollout"} {
		metrics.HeldObjects.WithLabelValues(kind, reason).Set(1)
	}
	for _, state := range []string{"waiting", "running", "done", "failed"} {
		metrics.RolloutObjects.WithLabelValues(kind, state).Set(1)
	}
	metrics.RolloutHalted.WithLabelValues(kind).Set(1)
	metrics.Peers.WithLabelValues("kopf.dev", "default", "shop").Set(1)
	metrics.AddMissingPermission(1, "example.com", "databases", "patch", "shop")
	metrics.NewKindCount().Set(map[string]int{metrics.Waiting: 1, metrics.Starting: 1, metrics.Failed: 1, metrics.Served: 1})
	metrics.NewNamespaceCount().Set(map[string]int{metrics.Starting: 1, metrics.Served: 1, metrics.Leaving: 1})
}

// runController lets a controller reconcile one object.
func runController(t testing.TB) {
	t.Helper()
	g := NewWithT(t)
	reconciled := make(chan struct{})
	c, err := controller.NewUnmanaged(kind, controller.Options{
		SkipNameValidation: new(true), Logger: logr.Discard(),
		Reconciler: reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			close(reconciled)
			return reconcile.Result{}, nil
		}),
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.Watch(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(reconcile.Request{})
		return nil
	}))).To(Succeed())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	g.Eventually(reconciled).Should(BeClosed())
	cancel()
	g.Expect(<-ended).NotTo(HaveOccurred())
}

// sendRequest sends a request with a client of client-go. The answer is an error, because the panel of errors must have a series.
func sendRequest(t testing.TB) {
	t.Helper()
	g := NewWithT(t)
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	c, err := rest.UnversionedRESTClientFor(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{
		GroupVersion: &schema.GroupVersion{Version: "v1"}, NegotiatedSerializer: clientgoscheme.Codecs.WithoutConversion(),
	}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.Get().AbsPath("/version").Do(t.Context()).Error()).To(HaveOccurred())
}

// known returns the families by the names that expressions can use.
func known(families []*dto.MetricFamily) map[string]family {
	all := map[string]family{}
	for _, f := range families {
		one := family{kind: f.GetType(), help: f.GetHelp(), values: map[string][]string{}}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				name := scrapedLabel(l.GetName())
				if !slices.Contains(one.values[name], l.GetValue()) {
					one.values[name] = append(one.values[name], l.GetValue())
				}
				if !slices.Contains(one.labels, name) {
					one.labels = append(one.labels, name)
				}
			}
		}
		one.labels = append(one.labels, targetLabels...)
		if one.kind != dto.MetricType_HISTOGRAM {
			all[f.GetName()] = one
			continue
		}
		one.kind = dto.MetricType_COUNTER // each part of a histogram is a counter
		all[f.GetName()+"_sum"], all[f.GetName()+"_count"] = one, one
		one.labels = append(slices.Clone(one.labels), "le")
		all[f.GetName()+"_bucket"] = one
	}
	return all
}

// scrapedLabel returns the name of a label in Prometheus. Labels with the name of a target label get a prefix, because the ServiceMonitor does not set
// honorLabels.
func scrapedLabel(name string) string {
	if slices.Contains(targetLabels, name) {
		return "exported_" + name
	}
	return name
}

// declared matches the texts of descriptors, which have no methods for their fields.
var declared = regexp.MustCompile(`fqName: "(\w+)".* variableLabels: \{([\w,]*)\}`)

// The checks of expressions use the gathered metrics. Each metric that the library has registered must be among them with all of its labels.
func TestExposed_ContainsAllMetricsOfTheLibrary(t *testing.T) {
	g := NewWithT(t)
	all := known(exposed(t))
	registry, ok := ctrlmetrics.Registry.(*prometheus.Registry)
	g.Expect(ok).To(BeTrue())
	descriptors := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(descriptors)
		close(descriptors)
	}()
	ours := 0
	for d := range descriptors {
		match := declared.FindStringSubmatch(d.String())
		g.Expect(match).NotTo(BeNil(), d.String())
		if !strings.HasPrefix(match[1], "kopf_") {
			continue
		}
		ours++
		f, found := all[match[1]]
		if !found {
			f, found = all[match[1]+"_count"]
		}
		g.Expect(found).To(BeTrue(), "recordOurs records no value for %s", match[1])
		for label := range strings.SplitSeq(match[2], ",") {
			g.Expect(f.labels).To(ContainElement(scrapedLabel(label)), match[1])
		}
	}
	g.Expect(ours).To(BeNumerically(">", 20))
}
