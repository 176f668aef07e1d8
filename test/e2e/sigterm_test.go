package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// childBusy makes the child process an operator with many running handlers and daemons.
const childBusy = "KOPF_E2E_CHILD_BUSY"

func busyChild() int {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	must(err)
	config.QPS = -1 // like ctrl.GetConfig, disable the client-side rate limit
	n, err := strconv.Atoi(os.Getenv(childBusy))
	must(err)
	ctrl.SetLogger((&logRecorder{}).Logger())
	mgr, err := manager.New(config, manager.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{os.Getenv(childEnv): {}}},
	})
	must(err)
	works := func(what string) kopf.Handler[*v1.Widget] {
		return func(ctx context.Context, req *kopf.Request[*v1.Widget]) error {
			recordCall(what + " begins")
			<-ctx.Done()
			if what == "daemon" {
				req.Object.Status.Phase = what
			} else {
				req.Object.Spec.Tags = []string{what}
			}
			recordCall(what + " ends")
			return context.Cause(ctx)
		}
	}
	must(kopf.SetupWithManager(mgr,
		kopf.For(&v1.Widget{}, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: n})).Daemon("daemon", daemons.Daemon{}, works("daemon")).OnCreate("handler", works("handler")),
		kopf.OnCleanup("cleanup", func(context.Context) error { recordCall("cleanup"); return nil })))
	must(mgr.Start(ctrl.SetupSignalHandler()))
	return 0
}

var _ = Describe("SIGTERM", func() {
	It("ends a hundred daemons and a hundred handlers within the grace period, stores their outcomes, and runs OnCleanup last (DAE-41, DAE-44, ACT-06, EVT-15, RUN-20, RUN-21, RUN-22, RUN-28)", func(ctx context.Context) {
		const objects = 100
		ns, folder := newNamespace(ctx), GinkgoT().TempDir()
		Expect(cp.WriteKubeconfig(filepath.Join(folder, "kubeconfig"))).To(Succeed())
		for i := range objects {
			create(ctx, widget(ns, fmt.Sprint("w", i)))
		}
		lines := func() []string {
			text, err := os.ReadFile(filepath.Join(folder, "calls"))
			if os.IsNotExist(err) {
				return nil
			}
			Expect(err).NotTo(HaveOccurred())
			return strings.Split(strings.TrimSpace(string(text)), "\n")
		}
		count := func(entry string) func() int {
			return func() (n int) {
				for _, line := range lines() {
					if line == entry {
						n++
					}
				}
				return n
			}
		}
		cmd := exec.Command(os.Args[0]) //nolint:gosec // os.Args[0] is this test binary
		cmd.Env = append(os.Environ(), childEnv+"="+ns, childBusy+"="+strconv.Itoa(objects),
			childCalls+"="+filepath.Join(folder, "calls"), "KUBECONFIG="+filepath.Join(folder, "kubeconfig"))
		cmd.Stdout, cmd.Stderr = GinkgoWriter, GinkgoWriter
		Expect(cmd.Start()).To(Succeed())
		DeferCleanup(func() { _ = cmd.Process.Kill() }) // the process may still be running
		Eventually(count("daemon begins")).WithTimeout(time.Minute).Should(Equal(objects))
		Eventually(count("handler begins")).WithTimeout(time.Minute).Should(Equal(objects))

		terminated := time.Now()
		Expect(cmd.Process.Signal(syscall.SIGTERM)).To(Succeed())
		Expect(cmd.Wait()).To(Succeed(), "the process must exit with code 0")
		GinkgoWriter.Printf("it took %s to stop\n", time.Since(terminated))
		Expect(time.Since(terminated)).To(BeNumerically("<", 30*time.Second), "the process must stop within the grace period of the manager")
		Expect(count("daemon ends")()).To(Equal(objects))
		Expect(count("handler ends")()).To(Equal(objects))
		all := lines()
		Expect(all[len(all)-1]).To(Equal("cleanup"))

		versions := func() map[string]string {
			var list v1.WidgetList
			Expect(k8s.List(ctx, &list, client.InNamespace(ns))).To(Succeed())
			out := map[string]string{}
			for _, w := range list.Items {
				Expect(w.Status.Phase).To(Equal("daemon"), "the outcome must be written")
				Expect(w.Spec.Tags).To(ConsistOf("handler"), "the outcome must be written")
				out[w.Name] = w.ResourceVersion
			}
			return out
		}
		before := versions()
		Expect(before).To(HaveLen(objects))
		Consistently(versions).Should(Equal(before))
	}, SpecTimeout(3*minute))
})
