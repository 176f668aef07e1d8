package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// traffic counts the bytes of lists and watches of widgets, and those requests without a shard selector.
type traffic struct {
	next                http.RoundTripper
	received, unsharded *atomic.Int64
}

func (t traffic) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if err != nil || r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/widgets") {
		return response, err
	}
	if query := r.URL.Query(); query.Get("shardSelector") == "" && query.Get("limit") != "1" { // a list of one object reads the resource version of the kind
		t.unsharded.Add(1)
	}
	response.Body = countedBody{response.Body, t.received}
	return response, nil
}

type countedBody struct {
	io.ReadCloser
	count *atomic.Int64
}

func (b countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.count.Add(int64(n))
	return n, err
}

// shardCalls records the calls of handlers by "verb kind uid", and in which processes.
type shardCalls struct {
	mu    sync.Mutex
	calls map[string][]int
}

func (c *shardCalls) add(process int, verb, kind string, uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := fmt.Sprintf("%s %s %s", verb, kind, uid)
	c.calls[key] = append(c.calls[key], process)
}

func (c *shardCalls) of(verb, kind string, uid types.UID) []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[fmt.Sprintf("%s %s %s", verb, kind, uid)]
}

var _ = Describe("Server-side shard selectors", func() {
	const count = 300 // widgets; there are also some ConfigMaps

	DescribeTable("distribute the objects over processes, and over other processes after a resize", func(ctx context.Context, gates string, isSelectedByServer bool) {
		own, err := controlplane.Start(controlplane.Options{CRDs: crds(), Args: map[string][]string{"feature-gates": {gates}}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(own.Stop)
		httpClient, err := rest.HTTPClientFor(own.Config)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(httpClient.CloseIdleConnections)
		direct, err := client.New(own.Config, client.Options{Scheme: scheme, HTTPClient: httpClient})
		Expect(err).NotTo(HaveOccurred())
		const ns = "default"

		var isReady atomic.Bool
		calls := &shardCalls{calls: map[string][]int{}}
		operator := func(index, total int) []kopf.Option {
			widgets := kopf.For(&v1.Widget{}).
				OnCreate("create", func(_ context.Context, req *kopf.Request[*v1.Widget]) error {
					calls.add(index, "create", "Widget", req.Object.UID)
					return nil
				}).
				OnCreate("later", func(_ context.Context, req *kopf.Request[*v1.Widget]) error {
					if !isReady.Load() {
						return kopf.Temporary(errors.New("not ready"), 20*time.Second)
					}
					calls.add(index, "later", "Widget", req.Object.UID)
					return nil
				})
			maps := kopf.For(&corev1.ConfigMap{}).
				OnCreate("create", func(_ context.Context, req *kopf.Request[*corev1.ConfigMap]) error {
					calls.add(index, "create", "ConfigMap", req.Object.UID)
					return nil
				}).
				OnUpdate("update", func(_ context.Context, req *kopf.Request[*corev1.ConfigMap]) error {
					calls.add(index, "update", "ConfigMap", req.Object.UID)
					return nil
				})
			// With short Leases, a busy machine would end the processes: the test is about another subject.
			return options(widgets, maps,
				kopf.WithKindCaches(cache.Options{DefaultNamespaces: map[string]cache.Config{ns: {}}}),
				kopf.WithSharding(sharding.ServerSide("widgets", index, total, sharding.LeaseNamespace(ns))))
		}
		here := func(c *rest.Config) { *c = *rest.CopyConfig(own.Config) }

		var objects []client.Object
		add := func(widgets, maps int) {
			for range widgets {
				objects = append(objects, widget(ns, fmt.Sprintf("w%03d", len(objects))))
			}
			for range maps {
				objects = append(objects, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("m%03d", len(objects))}})
			}
			for _, obj := range objects[len(objects)-widgets-maps:] {
				Expect(direct.Create(ctx, obj)).To(Succeed())
			}
		}
		kindOf := func(obj client.Object) string {
			if _, isMap := obj.(*corev1.ConfigMap); isMap {
				return "ConfigMap"
			}
			return "Widget"
		}
		// expectCalls waits until each object of a kind had exactly one call, in the process to which it belongs.
		expectCalls := func(verb, kind string, total int) {
			GinkgoHelper()
			var owners []int
			for _, obj := range objects {
				for index := range total {
					selected, err := sharding.ServerSide("widgets", index, total).Selector().Matches(obj)
					Expect(err).NotTo(HaveOccurred())
					if selected {
						owners = append(owners, index)
					}
				}
			}
			Expect(owners).To(HaveLen(len(objects)))
			check := func(g Gomega) {
				for i, obj := range objects {
					if kindOf(obj) == kind {
						g.Expect(calls.of(verb, kind, obj.GetUID())).To(Equal([]int{owners[i]}), "%s of %s", verb, obj.GetName())
					}
				}
			}
			Eventually(check).WithTimeout(4 * minute).WithPolling(100 * millisecond).Should(Succeed()) // on a busy machine
			Consistently(check).Should(Succeed())
		}

		add(count/2, 30)
		var received, unsharded atomic.Int64
		var old []*running
		for index := range 3 {
			old = append(old, start(ns, operator(index, 3), here, through(func(next http.RoundTripper) http.RoundTripper {
				return traffic{next, &received, &unsharded}
			})))
		}
		add(count/2, 30)
		expectCalls("create", "Widget", 3)
		expectCalls("create", "ConfigMap", 3)
		AddReportEntry("bytes of lists and watches of widgets in all processes", fmt.Sprint(received.Load()))

		By("refusing another number of processes")
		mgr := newManager(ns, &logRecorder{}, here)
		Expect(kopf.SetupWithManager(mgr, operator(0, 2)...)).To(Succeed())
		Expect(mgr.Start(ctx)).To(MatchError(ContainSubstring("with 3 shards, but this process has 2")))

		for index, one := range old {
			one.stop()
			warnings := len(one.log.find("The API server ignores shard selectors"))
			if isSelectedByServer {
				Expect(warnings).To(BeZero(), "the API server has sent objects of other processes to process %d", index)
			} else {
				Expect(warnings).To(Equal(1), "process %d", index)
			}
		}
		Expect(unsharded.Load()).To(BeZero(), "lists and watches of widgets without a shard selector")

		By("starting two processes instead of three")
		isReady.Store(true)
		for _, obj := range objects {
			if kindOf(obj) == "ConfigMap" {
				Expect(direct.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(`{"data":{"changed":"true"}}`)))).To(Succeed())
			}
		}
		for index := range 2 {
			start(ns, operator(index, 2), here)
		}
		expectCalls("later", "Widget", 2)
		expectCalls("update", "ConfigMap", 2)
		for _, obj := range objects {
			Expect(calls.of("create", kindOf(obj), obj.GetUID())).To(HaveLen(1), "handlers that have succeeded are not called again")
		}
	},
		Entry("with the feature gate", "ShardedListAndWatch=true", true, SpecTimeout(15*minute)),
		Entry("with the feature gate, and lists instead of watches with initial objects", "ShardedListAndWatch=true,WatchList=false", true, SpecTimeout(15*minute)),
		Entry("without the feature gate", "ShardedListAndWatch=false", false, SpecTimeout(15*minute)),
	)
})
