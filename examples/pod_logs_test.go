package examples

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func podLogs(e *example) {
	e.start()
	e.run("kubectl apply -f config/samples")
	// No kubelet runs the pod here, so the test serves its log.
	shop := e.sample("shop")
	node := e.startLogServer()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"}}
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node.Name}}
	e.Expect(e.client.SubResource("binding").Create(e.t.Context(), pod, binding)).To(Succeed())
	shop.patchStatus(`{"status":{"phase":"Running","containerStatuses":[
		{"name":"app","image":"busybox","imageID":"x","ready":true,"restartCount":0,"containerID":"x","state":{"running":{}}}]}}`)
	e.Eventually(shop.events).Should(ConsistOf("ErrorLogged: Container app: error: the disk is full"))
	e.Expect(e.run("kubectl describe pod shop")).To(ContainSubstring("Container app: error: the disk is full"))
	e.Eventually(shop.field("metadata", "annotations", "kopf-runtime.dev/logs.errors")).Should(ContainSubstring(`"lines":1`))
	e.stop()
	e.start()
	e.waitForLog("Starting workers")
	e.Expect(e.countLog("The container has logged an error")()).To(Equal(1))
	e.expectNoLog("forbidden")
	e.Expect(e.client.Delete(e.t.Context(), pod, client.GracePeriodSeconds(0))).To(Succeed()) // no kubelet would end it
}

// startLogServer starts a server with the log of the sample, and creates a node for it.
func (e *example) startLogServer() *corev1.Node {
	now := time.Now().UTC()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("previous") == "true" {
			http.Error(w, "the container has no previous instance", http.StatusBadRequest)
			return
		}
		for i, text := range []string{"started", "error: the disk is full"} {
			_, _ = io.WriteString(w, now.Add(time.Duration(i)*time.Millisecond).Format(time.RFC3339Nano)+" "+text+"\n")
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	e.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	e.Expect(err).NotTo(HaveOccurred())
	number, err := strconv.ParseInt(port, 10, 32)
	e.Expect(err).NotTo(HaveOccurred())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "logs"}}
	e.Expect(e.client.Create(e.t.Context(), node)).To(Succeed())
	e.t.Cleanup(func() { _ = e.client.Delete(e.t.Context(), node) })
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	e.Expect(e.client.Status().Update(e.t.Context(), node)).To(Succeed())
	return node
}
