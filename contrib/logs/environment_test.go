package logs_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kopf-runtime/kopf-runtime/contrib/logs"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// A real API server reads the logs from a kubelet of the test, whose responses break or end early. The operator has only the permissions that it declares.
func TestLines_WithAPIServer(t *testing.T) {
	if testing.Short() {
		t.Skip("needs an API server")
	}
	cluster := realCluster.ForTest(t)
	k, got := newKubelet(), newRecorder()
	k.cut = func(request int) (int, bool) {
		if request > 25 {
			return -1, false
		}
		return 300 * request, request%2 == 0
	}
	node := startKubelet(t, cluster, k)
	pod := newPod("app")
	pod.Namespace = cluster.Namespace
	status := pod.Status
	pod.Spec.NodeName, pod.Spec.TerminationGracePeriodSeconds = node, new(int64(0))
	cluster.Create(t, pod)
	setStatus := func(status corev1.PodStatus) {
		kopftest.Edit(t, cluster, pod, func(p *corev1.Pod) { p.Status = status })
	}
	setStatus(status)
	clientset, err := kubernetes.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	entries := newEntries(manyLines)
	k.write("app", entries[:99]...)
	declare := func() []kopf.Option {
		return []kopf.Option{kopf.For(&corev1.Pod{}).Daemon("lines", daemons.Daemon{}, logs.Lines(clientset, got.handle)), logs.Needs()}
	}
	operator := cluster.Run(t, declare()...)
	got.wait(t, 99)
	operator.Stop(t)
	k.restart("app")
	k.write("app", entries[99:]...)
	status.ContainerStatuses = []corev1.ContainerStatus{running("app", 1)}
	setStatus(status)
	cluster.Run(t, declare()...)
	got.wait(t, manyLines)
	equal(t, "real", got.texts(), textsOf(entries))
	cluster.Get(t, pod)
	t.Logf("%d requests, bookmark %s", k.requestCount(), pod.Annotations["kopf-runtime.dev/logs.lines"])
}

// startKubelet starts a server with the log endpoint of a kubelet, and returns the name of its node.
func startKubelet(t *testing.T, cluster *kopftest.Cluster, k *kubelet) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		k.serve(w, r, r.PathValue("container"))
	})
	server := httptest.NewTLSServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	host, text, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + cluster.Namespace}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	status := node.Status
	cluster.Create(t, node)
	kopftest.Edit(t, cluster, node, func(n *corev1.Node) { n.Status = status })
	return node.Name
}
