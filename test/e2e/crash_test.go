package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// With these variables, the test binary runs an operator that kills itself.
const (
	childEnv     = "KOPF_E2E_CHILD"         // namespace of the operator
	childCalls   = "KOPF_E2E_CHILD_CALLS"   // file with the calls of the handlers
	childBefore  = "KOPF_E2E_KILL_BEFORE"   // number of the write before which the process sends itself SIGKILL, counted from 1
	childAfter   = "KOPF_E2E_KILL_AFTER"    // number of the write after whose response the process sends itself SIGKILL
	childResults = "KOPF_E2E_CHILD_RESULTS" // if set, each handler returns a result, which needs another write
)

var fiveHandlers = []string{"h1", "h2", "h3", "h4", "h5"}

// runChild runs the operator that the variables select, and returns the exit code. A killed process runs no cleanup.
func runChild() int {
	if os.Getenv(childBusy) != "" {
		return busyChild()
	}
	if os.Getenv(childShard) != "" {
		return shardChild()
	}
	if os.Getenv(childPeer) != "" {
		return peerChild()
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	must(err)
	before, _ := strconv.Atoi(os.Getenv(childBefore))
	after, _ := strconv.Atoi(os.Getenv(childAfter))
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &killingTransport{next: next, before: int64(before), after: int64(after)}
	})
	recorder := &logRecorder{}
	log.SetLogger(recorder.Logger())
	mgr, err := manager.New(config, manager.Options{
		Scheme: scheme, Logger: recorder.Logger(), Metrics: server.Options{BindAddress: "0"},
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{os.Getenv(childEnv): {}}},
	})
	must(err)
	widgets := kopf.For(kopf.Unstructured(widgetGVK))
	for _, id := range fiveHandlers {
		widgets.OnCreate(id, func(_ context.Context, req *kopf.Request[*unstructured.Unstructured]) error {
			recordCall(id)
			if os.Getenv(childResults) != "" {
				req.SetResult(map[string]any{"done": true})
			}
			return nil
		})
	}
	widgets.OnDelete("delete", func(context.Context, *kopf.Request[*unstructured.Unstructured]) error {
		recordCall("delete")
		return nil
	})
	must(kopf.SetupWithManager(mgr, widgets, kopf.WithCheckpoint(0)))
	must(mgr.Start(context.Background()))
	return 0
}

func recordCall(id string) {
	f, err := os.OpenFile(os.Getenv(childCalls), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(err)
	_, err = fmt.Fprintln(f, id)
	must(err)
	must(f.Close())
}

// killingTransport kills its own process at one of its writes.
type killingTransport struct {
	next          http.RoundTripper
	before, after int64
	writes        atomic.Int64
}

func (d *killingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch {
		return d.next.RoundTrip(r)
	}
	n := d.writes.Add(1)
	if n == d.before {
		must(syscall.Kill(os.Getpid(), syscall.SIGKILL))
	}
	response, err := d.next.RoundTrip(r)
	if n == d.after {
		must(syscall.Kill(os.Getpid(), syscall.SIGKILL))
	}
	return response, err
}

var _ = Describe("A handler whose success is stored is not called again after SIGKILL", func() {
	var namespace, folder string

	BeforeEach(func(ctx context.Context) {
		namespace, folder = newNamespace(ctx), GinkgoT().TempDir()
		Expect(cp.WriteKubeconfig(filepath.Join(folder, "kubeconfig"))).To(Succeed())
	})

	// called counts the calls of each handler in all processes.
	called := func() map[string]int {
		GinkgoHelper()
		text, err := os.ReadFile(filepath.Join(folder, "calls"))
		if !os.IsNotExist(err) {
			Expect(err).NotTo(HaveOccurred())
		}
		counts := map[string]int{}
		for id := range strings.FieldsSeq(string(text)) {
			counts[id]++
		}
		return counts
	}

	// runProcess runs a process until it kills itself or done returns true. It reports whether the process was killed.
	runProcess := func(done func() bool, env ...string) (killed bool) {
		GinkgoHelper()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), append(env,
			"KUBECONFIG="+filepath.Join(folder, "kubeconfig"),
			childEnv+"="+namespace, childCalls+"="+filepath.Join(folder, "calls"))...)
		cmd.Stdout, cmd.Stderr = GinkgoWriter, GinkgoWriter
		Expect(cmd.Start()).To(Succeed())
		exited := make(chan error, 1)
		go func() { exited <- cmd.Wait() }()
		defer func() { _ = cmd.Process.Kill() }()
		Eventually(func() bool {
			select {
			case err := <-exited:
				Expect(err).To(MatchError(ContainSubstring("killed")), "the child process failed without a kill")
				killed = true
			default:
			}
			return killed || done()
		}).Should(BeTrue())
		return killed
	}

	// succeeded returns the handlers whose success is stored on the object.
	succeeded := func(obj *unstructured.Unstructured) []string {
		var ids []string
		for _, id := range fiveHandlers {
			var record progress.Record
			text, ok := obj.GetAnnotations()[progress.DefaultPrefix+"/"+id]
			if ok && json.Unmarshal([]byte(text), &record) == nil && record.Success {
				ids = append(ids, id)
			}
		}
		return ids
	}

	DescribeTable("at each write of a cycle of five handlers (B-14)",
		func(ctx context.Context, fatal string, extra ...string) {
			obj := untyped(widgetGVK, namespace, "one")
			create(ctx, obj)
			read := fresh(ctx, obj)
			over := func() bool {
				now, err := read()
				return err == nil && now.GetAnnotations()[baselineKey] != "" && len(records(now)) == 0
			}
			kills := 0
			for !over() {
				if !runProcess(over, append(extra, fatal)...) {
					break
				}
				kills++
				Expect(kills).To(BeNumerically("<", 40), "the cycle must end after a few restarts")

				// A stored success is final: the handler was called before, and is not called again.
				now, err := read()
				Expect(err).NotTo(HaveOccurred())
				finished := succeeded(now)
				before := called()
				if over() {
					finished = fiveHandlers
				}
				DeferCleanup(func() {
					for _, id := range finished {
						Expect(called()[id]).To(Equal(before[id]), "handler %s succeeded before kill %d and was called again", id, kills)
					}
				})
			}
			Expect(kills).To(BeNumerically(">=", 5))
			for _, id := range fiveHandlers {
				Expect(called()[id]).To(And(BeNumerically(">=", 1), BeNumerically("<=", 2)), id)
			}
			Expect(called()).NotTo(HaveKey("delete"))
			AddReportEntry("kills and calls", fmt.Sprint(kills, called()))
		},
		Entry("after the response", SpecTimeout(3*minute), childAfter+"=1"),
		Entry("before the next request", SpecTimeout(3*minute), childBefore+"=2"),
		Entry("after the response, with results", SpecTimeout(3*minute), childAfter+"=1", childResults+"=1"),
		Entry("before the next request, with results", SpecTimeout(3*minute), childBefore+"=3", childResults+"=1"),
	)
})
