package guide

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
)

// A reconciler and equivalent handlers. ConfigMaps represent sites. docs/coming-from-a-reconciler.md shows how the reconciler is wrapped.

const siteFinalizer = "example.com/site"

var errBusy = errors.New("busy")

// Provider is an API that manages sites. Its first call fails.
type Provider struct {
	mu    sync.Mutex
	calls []string
}

func (p *Provider) Ensure(_ context.Context, name string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, "ensure "+name)
	if len(p.calls) == 1 {
		return "", errBusy
	}
	return name + ".example.com", nil
}

func (p *Provider) Drop(_ context.Context, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, "drop "+name)
	return nil
}

func (p *Provider) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

type SiteReconciler struct {
	client.Client
	Provider *Provider
}

func (r *SiteReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	site := &corev1.ConfigMap{}
	if err := r.Get(ctx, req.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := site.DeepCopy()
	if !site.DeletionTimestamp.IsZero() {
		if !controllerutil.ContainsFinalizer(site, siteFinalizer) {
			return ctrl.Result{}, nil
		}
		if err := r.Provider.Drop(ctx, site.Name); err != nil {
			return ctrl.Result{}, err
		}
		controllerutil.RemoveFinalizer(site, siteFinalizer)
		return ctrl.Result{}, client.IgnoreNotFound(r.Patch(ctx, site, client.MergeFrom(before)))
	}
	if controllerutil.AddFinalizer(site, siteFinalizer) {
		if err := r.Patch(ctx, site, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return ctrl.Result{}, err
		}
		before = site.DeepCopy()
	}
	address, err := r.Provider.Ensure(ctx, site.Name) // in each reconcile, even if the site exists already
	if errors.Is(err, errBusy) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	site.Data["address"] = address
	return ctrl.Result{}, r.Patch(ctx, site, client.MergeFrom(before))
}

type SiteRequest = kopf.Request[*corev1.ConfigMap]

type Sites struct{ Provider *Provider }

func (s *Sites) Ensure(ctx context.Context, req *SiteRequest) error {
	address, err := s.Provider.Ensure(ctx, req.Object.Name)
	if errors.Is(err, errBusy) {
		return kopf.Temporary(err, time.Second)
	}
	if err != nil {
		return err
	}
	req.Object.Data["address"] = address
	return nil
}

func (s *Sites) Drop(ctx context.Context, req *SiteRequest) error {
	return s.Provider.Drop(ctx, req.Object.Name)
}

func handlersOf(sites *Sites) *kopf.Resource[*corev1.ConfigMap] {
	return kopf.For(&corev1.ConfigMap{}).
		OnCreateOrUpdate("ensure", sites.Ensure, kopf.Label("site", filter.Equal("handlers"))).
		OnDelete("drop", sites.Drop, kopf.Label("site", filter.Equal("handlers")))
}

// wrapped is an intermediate step of the migration: kopf calls the reconciler.
func wrapped(reconciler *SiteReconciler) *kopf.Resource[*corev1.ConfigMap] {
	return kopf.For(&corev1.ConfigMap{}).
		OnReconcile("main", kopf.FromReconciler[*corev1.ConfigMap](reconciler), kopf.Label("site", filter.Equal("wrapped"))).
		OnUpdate("check", checkName, kopf.Label("site", filter.Equal("wrapped"))) // a new handler
}

func checkName(_ context.Context, req *SiteRequest) error {
	if problems := validation.IsDNS1123Label(req.Object.Name); len(problems) > 0 {
		return kopf.Permanent(fmt.Errorf("no site can have the name: %s", problems[0]))
	}
	return nil
}

// All three implementations have the same results.
func TestReconciler_AndHandlersAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("the test needs an API server")
	}
	for name, start := range map[string]func(*testing.T, *Provider) client.Client{
		"plain": func(t *testing.T, p *Provider) client.Client {
			return runManager(t, cfg, func(mgr ctrl.Manager) error {
				labelled := predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetLabels()["site"] == "plain" })
				return ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).WithEventFilter(labelled).
					Complete(&SiteReconciler{Client: mgr.GetClient(), Provider: p})
			})
		},
		"handlers": func(t *testing.T, p *Provider) client.Client {
			return runWithRights(t, func(ctrl.Manager) []kopf.Option { return []kopf.Option{handlersOf(&Sites{Provider: p})} })
		},
		"wrapped": func(t *testing.T, p *Provider) client.Client {
			return runWithRights(t, func(mgr ctrl.Manager) []kopf.Option {
				reconciler := &SiteReconciler{Provider: p}
				if mgr != nil {
					reconciler.Client = mgr.GetClient()
				}
				return []kopf.Option{wrapped(reconciler), kopf.Needs(&corev1.ConfigMap{}, "update")} // the reconciler updates the objects
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, provider := NewWithT(t), &Provider{}
			g.SetDefaultEventuallyTimeout(patience)
			k8s := start(t, provider)
			site := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "site-" + name, Labels: map[string]string{"site": name}},
				Data:       map[string]string{"theme": "dark"},
			}
			g.Expect(k8s.Create(t.Context(), site)).To(Succeed())
			g.Eventually(func(g Gomega) {
				g.Expect(k8s.Get(t.Context(), client.ObjectKeyFromObject(site), site)).To(Succeed())
				g.Expect(site.Data).To(Equal(map[string]string{"theme": "dark", "address": site.Name + ".example.com"}))
				g.Expect(site.Finalizers).To(HaveLen(1))
			}).Should(Succeed())
			g.Expect(k8s.Delete(t.Context(), site)).To(Succeed())
			g.Eventually(provider.seen).Should(ContainElement("drop " + site.Name))
			g.Eventually(func() error { return k8s.Get(t.Context(), client.ObjectKeyFromObject(site), site) }).
				ShouldNot(Succeed())
			if name == "handlers" { // one rejected call and one successful call
				g.Expect(provider.seen()).To(Equal([]string{"ensure " + site.Name, "ensure " + site.Name, "drop " + site.Name}))
			}
		})
	}
}

// runManager starts a manager, stops it at the end of the test, and returns a client.
func runManager(t *testing.T, cfg *rest.Config, setup func(ctrl.Manager) error) client.Client {
	t.Helper()
	skipNames := true // names of controllers, which several managers of one process share
	options := ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}}
	options.Controller.SkipNameValidation = &skipNames
	mgr, err := ctrl.NewManager(cfg, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := setup(mgr); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return newClient(t)
}

// newClient returns a client with all permissions that does not read from a cache.
func newClient(t *testing.T) client.Client {
	t.Helper()
	direct, err := client.New(cfg, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return direct
}

// runWithRights starts an operator as a user with exactly the permissions that WriteRights writes for it. The function returns the options of the operator; the
// manager is nil if they are only used for the permissions.
func runWithRights(t *testing.T, options func(ctrl.Manager) []kopf.Option) client.Client {
	t.Helper()
	restricted := configWithRights(t, rights.Options{}, options(nil)...)
	return runManager(t, restricted, func(mgr ctrl.Manager) error { return kopf.SetupWithManager(mgr, options(mgr)...) })
}

// configWithRights returns the config of a new user with exactly the permissions of an operator.
func configWithRights(t *testing.T, rights rights.Options, options ...kopf.Option) *rest.Config {
	t.Helper()
	var roles bytes.Buffer
	rights.Name = "operator"
	if err := kopf.WriteRights(&roles, clientgoscheme.Scheme, rights, options...); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rbac.yaml")
	if err := os.WriteFile(file, roles.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	all := &kopftest.Cluster{Client: newClient(t), Config: cfg, Scheme: clientgoscheme.Scheme}
	return all.WithRights(t, file).Config
}
