package peering

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	v1 "github.com/kopf-runtime/kopf-runtime/pkg/peering/v1"
)

var serial atomic.Int64

// unique returns a name that no other spec uses.
func unique() string { return fmt.Sprintf("peers-%d", serial.Add(1)) }

// peeringObject identifies a peering object.
type peeringObject struct{ group, namespace, name string }

func (w peeringObject) String() string { return w.group + "/" + w.namespace }

func (w peeringObject) object() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	kind := "ClusterKopfPeering"
	if w.namespace != "" {
		kind = "KopfPeering"
	}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: w.group, Version: v1.Version, Kind: kind})
	u.SetNamespace(w.namespace)
	u.SetName(w.name)
	return u
}

func (w peeringObject) create(ctx context.Context) peeringObject {
	GinkgoHelper()
	Expect(k8s.Create(ctx, w.object())).To(Succeed())
	DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(k8s.Delete(ctx, w.object()))).To(Succeed()) })
	return w
}

// patch sends a merge patch to the endpoint that kopf uses.
func (w peeringObject) patch(ctx context.Context, body string) {
	GinkgoHelper()
	patch := client.RawPatch(apitypes.MergePatchType, []byte(body))
	if w.group == v1.LegacyGroup { // this group has the status subresource in the tests
		Expect(k8s.Status().Patch(ctx, w.object(), patch)).To(Succeed())
		return
	}
	Expect(k8s.Patch(ctx, w.object(), patch)).To(Succeed())
}

func (w peeringObject) status(ctx context.Context) map[string]any {
	GinkgoHelper()
	u := w.object()
	Expect(k8s.Get(ctx, client.ObjectKeyFromObject(u), u)).To(Succeed())
	status, _ := u.Object["status"].(map[string]any)
	return status
}

func (w peeringObject) identities(ctx context.Context) []string {
	return slices.Sorted(maps.Keys(w.status(ctx)))
}

func cluster(ctx context.Context) peeringObject {
	return peeringObject{v1.Group, "", unique()}.create(ctx)
}

func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	name := unique()
	Expect(k8s.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	return name
}

// operator is a manager with a peering.
type operator struct {
	*peering.Peering
	mgr  manager.Manager
	stop func()

	mu          sync.Mutex
	transitions []peering.Transition
}

func startOperator(options peering.Options, setUp ...func(manager.Manager, *peering.Peering)) *operator {
	GinkgoHelper()
	return startOperatorWithConfig(cp.Config, manager.Options{}, options, setUp...)
}

func startOperatorWithConfig(config *rest.Config, managed manager.Options, options peering.Options, setUp ...func(manager.Manager, *peering.Peering)) *operator {
	GinkgoHelper()
	managed.Scheme, managed.Logger, managed.Metrics = scheme, GinkgoLogr, server.Options{BindAddress: "0"}
	mgr, err := manager.New(config, managed)
	Expect(err).NotTo(HaveOccurred())
	o := &operator{mgr: mgr}
	o.Peering, err = peering.New(mgr, options)
	Expect(err).NotTo(HaveOccurred())
	o.Subscribe(func(t peering.Transition) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.transitions = append(o.transitions, t)
	})
	Expect(mgr.Add(o.Peering)).To(Succeed())
	for _, do := range setUp {
		do(mgr, o.Peering)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	o.stop = sync.OnceFunc(func() {
		GinkgoHelper()
		cancel()
		Eventually(done).Should(Receive(BeNil()), "the manager must stop without an error")
	})
	DeferCleanup(o.stop)
	return o
}

// is returns a function for Eventually. The function returns "works" or "paused" with the reason.
func (o *operator) is(namespace string) func() string {
	return func() string {
		paused, why := o.Paused(namespace)
		if paused {
			return "paused: " + why
		}
		return "works: " + why
	}
}

func works() types.GomegaMatcher { return HavePrefix("works") }

// isPaused matches operators that a peer pauses. It does not match operators that have not observed their peers yet.
func isPaused() types.GomegaMatcher { return pausedBecause("precedence over this operator's priority") }

func pausedBecause(part string) types.GomegaMatcher {
	return And(HavePrefix("paused"), ContainSubstring(part))
}
