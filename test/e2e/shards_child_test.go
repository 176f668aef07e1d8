package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// childShard makes the child process a shard. Its value is a shardSetup as JSON.
const childShard = "KOPF_E2E_CHILD_SHARD"

type shardSetup struct {
	Ring, Name   string
	Index, Total int           // of a server-side ring; Total is 0 for a ControllerRing
	Work         time.Duration // the duration of each handler
}

func (s shardSetup) ring() sharding.Ring {
	namespace := sharding.LeaseNamespace(os.Getenv(childEnv))
	if s.Total > 0 {
		return sharding.ServerSide(s.Ring, s.Index, s.Total, namespace)
	}
	return sharding.ControllerRing(s.Ring, sharding.ShardName(s.Name), namespace)
}

// The durations of the Leases of shards.
const (
	shardLease    = 6 * time.Second
	shardDeadline = 4 * time.Second
	shardRetry    = time.Second
)

// shardChild runs a shard that prints the begin and the end of each attempt, and its writes of widgets.
func shardChild() int {
	var setup shardSetup
	must(json.Unmarshal([]byte(os.Getenv(childShard)), &setup))
	ctrl.SetLogger(logr.Discard()) // controller-runtime would otherwise log a missing logger
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	must(err)
	config.QPS, config.ContentType = -1, "application/json"
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return printingBodies{next} })
	mgr, err := manager.New(config, manager.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	must(err)
	type Request = kopf.Request[*v1.Widget]
	attempt := func(id string) kopf.Handler[*v1.Widget] {
		return func(ctx context.Context, req *Request) error {
			printEvent(fmt.Sprintf("begin %s %s", req.Object.Name, id))
			isDone := wait(ctx, setup.Work)
			printEvent(fmt.Sprintf("end %s %s", req.Object.Name, id))
			if !isDone {
				return context.Cause(ctx)
			}
			printEvent(fmt.Sprintf("done %s %d", req.Object.Name, req.Object.Spec.Size))
			return nil
		}
	}
	widgets := kopf.For(&v1.Widget{}).OnCreate("create", attempt("create")).OnUpdate("update", attempt("update")).
		Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, req *Request) error {
			printEvent(fmt.Sprintf("begin %s daemon", req.Object.Name))
			<-ctx.Done()
			printEvent(fmt.Sprintf("end %s daemon", req.Object.Name))
			return nil
		})
	own := cache.Options{DefaultNamespaces: map[string]cache.Config{os.Getenv(childEnv): {}}} // other specs have widgets, too
	must(kopf.SetupWithManager(mgr, widgets, kopf.WithKindCaches(own), kopf.WithLeaseDurations(shardLease, shardDeadline, shardRetry), kopf.WithSharding(setup.ring())))
	go collectOnSignal()
	printEvent("starts")
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		printEvent("fails " + strings.ReplaceAll(err.Error(), "\n", " "))
		return 1
	}
	return 0
}

// collectOnSignal collects the garbage of the process on each SIGUSR1, and prints the size of the heap.
func collectOnSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	for range signals {
		debug.FreeOSMemory()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		printEvent(fmt.Sprintf("heap %d", stats.HeapInuse))
	}
}

// A printingBodies prints each write of a widget with its body, and the response to a release of a widget.
type printingBodies struct{ http.RoundTripper }

func (p printingBodies) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || !strings.Contains(r.URL.Path, "/widgets/") {
		return p.RoundTripper.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	printEvent(fmt.Sprintf("writes %s %s", r.URL.Path, body))
	response, err := p.RoundTripper.RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusOK && bytes.Contains(body, []byte(sharding.DrainLabel(""))) {
		printEvent("released " + r.URL.Path)
	}
	return response, err
}

// launchShard starts a shard in a process of its own.
func launchShard(namespace string, setup shardSetup) *peer {
	GinkgoHelper()
	text, err := json.Marshal(setup)
	Expect(err).NotTo(HaveOccurred())
	kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(cp.WriteKubeconfig(kubeconfig)).To(Succeed())
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), childEnv+"="+namespace, childShard+"="+string(text), "KUBECONFIG="+kubeconfig)
	return run(command)
}
