package kopftest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

func needServer(t *testing.T) *kopftest.Cluster {
	t.Helper()
	if cluster == nil {
		t.Skip("needs an API server")
	}
	return cluster.ForTest(t)
}

// painting returns an operator whose handler fails once.
func painting() *kopf.Resource[*corev1.ConfigMap] {
	return kopf.For(&corev1.ConfigMap{}).
		OnCreate("paint", func(_ context.Context, req *cmRequest) error {
			if req.Attempt.Number == 0 {
				return kopf.Temporary(errors.New("busy"), 100*time.Millisecond)
			}
			req.Object.Data["painted"] = "yes"
			req.Eventf("Normal", "Painted", "Paint", "done")
			return nil
		}).
		OnDelete("drop", func(context.Context, *cmRequest) error { return nil })
}

// TEST-01, TEST-02: an operator runs until it is stopped and reports its calls.
func TestEnvironment_RunsAnOperator(t *testing.T) {
	g, cluster := NewWithT(t), needServer(t)
	g.SetDefaultEventuallyTimeout(20 * time.Second)
	operator := cluster.Run(t, painting())
	obj := &corev1.ConfigMap{Data: map[string]string{"color": "red"}}
	obj.Name = "orders"
	cluster.Create(t, obj)
	operator.RunUntilQuiet(t)
	cluster.Get(t, obj)
	g.Expect(obj).To(And(kopftest.HaveHandled(), kopftest.HaveFinalizer()))
	g.Expect(obj.Data).To(HaveKeyWithValue("painted", "yes"))
	g.Expect(operator.Handlers(obj)).To(Equal([]string{"paint", "paint"}))
	g.Expect(operator.Calls()[0].Err).To(MatchError("busy"))
	g.Eventually(operator.Events).Should(ContainElement(HaveField("Reason", "Painted")))
	g.Expect(operator.Writes()).To(HaveEach(HaveField("Resource", "configmaps")))

	cluster.Delete(t, obj)
	operator.RunUntilQuiet(t)
	_, err := kopftest.Object(t, cluster, obj)()
	g.Expect(client.IgnoreNotFound(err)).To(Succeed())
	g.Expect(err).To(HaveOccurred(), "want the object deleted")
	operator.Stop(t)
	operator.Stop(t)
}

func TestForTest_ConfinesOperators(t *testing.T) {
	g, one, other := NewWithT(t), needServer(t), needServer(t)
	operator := one.Run(t, painting())
	strange := &corev1.ConfigMap{Data: map[string]string{"color": "red"}}
	strange.Name = "orders"
	own := strange.DeepCopy()
	other.Create(t, strange)
	one.Create(t, own)
	operator.RunUntilQuiet(t)
	g.Expect(operator.Handlers(own)).NotTo(BeEmpty())
	g.Expect(operator.Handlers(strange)).To(BeEmpty())
}

func TestEnvironment_FaultsAndCrashes(t *testing.T) {
	g, cluster := NewWithT(t), needServer(t)
	g.SetDefaultEventuallyTimeout(20 * time.Second)
	obj := &corev1.ConfigMap{Data: map[string]string{"color": "red"}}
	obj.Name = "orders"
	cluster.Create(t, obj)
	setup := func(mgr manager.Manager) error { return kopf.SetupWithManager(mgr, painting()) }
	first := cluster.RunManager(t, setup)
	first.InjectFaults(kopftest.Fault{Verb: "patch", Resource: "configmaps", Code: 500, Times: 2})
	g.Eventually(func() []kopftest.Write { return first.Writes() }).Should(ContainElement(HaveField("Code", 500)))
	first.Crash(t)
	second := cluster.RunManager(t, setup)
	second.RunUntilQuiet(t)
	g.Expect(obj.DeepCopy()).NotTo(kopftest.HaveHandled())
	cluster.Get(t, obj)
	g.Expect(obj).To(kopftest.HaveHandled())
}

// Tests must not write to an existing cluster.
func TestEnvironment_IgnoresExistingClusters(t *testing.T) {
	needServer(t)
	t.Setenv("USE_EXISTING_CLUSTER", "true")
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "nothing"))
	t.Setenv("KUBEBUILDER_CONTROLPLANE_START_TIMEOUT", "1ms")
	g := NewWithT(t)
	g.Expect(failureOf(t, func(tb testing.TB) { kopftest.Environment(tb) })).To(And(
		ContainSubstring("start the API server"), ContainSubstring("unable to start control plane itself"), ContainSubstring("set KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=3m")))
}

func TestEnvironment_MissingBinaries(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("KUBEBUILDER_ASSETS", filepath.Join(t.TempDir(), "nothing"))
	g.Expect(failureOf(t, func(tb testing.TB) { kopftest.Environment(tb) })).To(And(
		ContainSubstring("KUBEBUILDER_ASSETS"), ContainSubstring("correct or unset it")))

	g.Expect(os.Unsetenv("KUBEBUILDER_ASSETS")).To(Succeed())
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Chdir(t.TempDir())
	g.Expect(failureOf(t, func(tb testing.TB) { kopftest.Environment(tb) })).To(And(
		ContainSubstring("kube-apiserver and etcd not found"), ContainSubstring("setup-envtest")))
}

// "go test -list" and the workers of a fuzz test start no server.
func TestMain_StartsNoServerIfNoTestRuns(t *testing.T) {
	for flag, starts := range map[string]bool{"-test.run=^$": true, "-test.list=^TestMain": false, "-test.fuzzworker": false, "-test.short": false} {
		command := exec.CommandContext(t.Context(), os.Args[0], flag, "-test.run=^$")
		command.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+t.TempDir())
		text, err := command.CombinedOutput()
		g := NewWithT(t)
		if starts {
			g.Expect(err).To(HaveOccurred())
			g.Expect(string(text)).To(ContainSubstring("correct or unset it"), flag)
		} else {
			g.Expect(string(text)).NotTo(ContainSubstring("correct or unset it"), flag)
		}
	}
}

// After a panic in a test, no server and no directory of a server remains.
func TestEnvironment_ServersEndAfterAPanic(t *testing.T) {
	if os.Getenv("KOPFTEST_PANIC") != "" {
		fmt.Println("serving", strings.TrimPrefix(cluster.Config.Host, "https://"))
		go panic("boom")
		select {}
	}
	needServer(t)
	g, folder := NewWithT(t), t.TempDir()
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestEnvironment_ServersEndAfterAPanic$")
	command.Env = append(os.Environ(), "KOPFTEST_PANIC=yes", "TMPDIR="+folder)
	text, err := command.CombinedOutput()
	g.Expect(err).To(HaveOccurred())
	g.Expect(string(text)).To(ContainSubstring("panic: boom"))
	address := regexp.MustCompile(`serving (\S+)`).FindStringSubmatch(string(text))
	g.Expect(address).To(HaveLen(2), "%s", text)
	g.Eventually(func() ([]os.DirEntry, error) { return os.ReadDir(folder) }).WithTimeout(time.Minute).Should(BeEmpty())
	_, err = new(net.Dialer).DialContext(t.Context(), "tcp", address[1])
	g.Expect(err).To(HaveOccurred(), "want no listening server")
}
