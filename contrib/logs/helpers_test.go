package logs_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/contrib/logs"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

var realCluster *kopftest.Cluster

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // controller-runtime would otherwise log a missing logger
	os.Exit(kopftest.Main(m, &realCluster))
}

// start is the time of the first line. In a bubble, it is the present time.
var start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// An entry is a line in a log of the test server.
type entry struct {
	time time.Time
	text string
}

func (e entry) String() string { return e.time.Format(time.RFC3339Nano) + " " + e.text + "\n" }

// newEntries returns lines of which some have equal timestamps, and one is swapped with the next.
func newEntries(n int) (entries []entry) {
	for i := range n {
		entries = append(entries, entry{start.Add(time.Duration(i/3) * 400 * time.Millisecond), fmt.Sprintf("line %d", i)})
	}
	if n > 51 {
		entries[51].time, entries[50].time = entries[50].time.Add(-time.Microsecond), entries[51].time
	}
	return entries
}

func textsOf(entries []entry) (texts []string) {
	for _, e := range entries {
		texts = append(texts, e.text)
	}
	return texts
}

// A log is the log of one instance of a container.
type instanceLog struct {
	entries []entry
	raw     string // text after the entries, such as a line without a line break
	ended   bool
}

// A kubelet serves the logs of the containers of one pod, as a kubelet does behind an API server.
type kubelet struct {
	mu       sync.Mutex
	logs     map[string][]instanceLog // instances by container; the last one is current
	changed  chan struct{}            // closed at a change
	requests []string                 // queries of answered requests
	sent     int                      // bytes

	// cut returns the offset in the log after which a response ends, and whether it breaks instead of ending as complete. A negative offset has no effect.
	cut   func(request int) (offset int, breaks bool)
	paced bool // whether lines appear at their times
	mute  bool // whether responses have no lines
}

func newKubelet() *kubelet {
	return &kubelet{logs: map[string][]instanceLog{}, changed: make(chan struct{}), cut: func(int) (int, bool) { return -1, false }}
}

func (k *kubelet) change(do func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	do()
	close(k.changed)
	k.changed = make(chan struct{})
}

// write adds lines to the current instance of a container.
func (k *kubelet) write(container string, entries ...entry) {
	k.change(func() {
		all := k.logs[container]
		if len(all) == 0 {
			all = append(all, instanceLog{})
		}
		all[len(all)-1].entries = append(all[len(all)-1].entries, entries...)
		k.logs[container] = all
	})
}

// end ends the current instance of a container.
func (k *kubelet) end(container string) {
	k.change(func() { k.logs[container][len(k.logs[container])-1].ended = true })
}

// restart ends the current instance of a container and starts the next one.
func (k *kubelet) restart(container string) {
	k.end(container)
	k.change(func() { k.logs[container] = append(k.logs[container], instanceLog{}) })
}

func (k *kubelet) requestCount() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.requests)
}

// instance returns a copy of the requested log.
func (k *kubelet) instance(container string, previous bool) (found instanceLog, ok bool, changed chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := len(k.logs[container]) - 1
	if previous {
		i--
	}
	if i < 0 {
		return instanceLog{}, false, k.changed
	}
	return k.logs[container][i], true, k.changed
}

func (k *kubelet) index(container string, previous bool) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if previous {
		return len(k.logs[container]) - 2
	}
	return len(k.logs[container]) - 1
}

func (k *kubelet) at(container string, i int) (instanceLog, chan struct{}, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.logs[container][i], k.changed, k.mute
}

// serve answers a request for a log.
func (k *kubelet) serve(w http.ResponseWriter, r *http.Request, container string) {
	query := r.URL.Query()
	previous, follow := query.Get("previous") == "true", query.Get("follow") == "true"
	if query.Get("timestamps") != "true" {
		http.Error(w, "the test needs timestamps", http.StatusInternalServerError)
		return
	}
	if _, ok, _ := k.instance(container, previous); !ok {
		http.Error(w, fmt.Sprintf("container %q is waiting to start, or has no previous instance", container), http.StatusBadRequest)
		return
	}
	k.mu.Lock()
	k.requests = append(k.requests, query.Encode())
	number := len(k.requests)
	k.mu.Unlock()
	var since time.Time
	if value := query.Get("sinceTime"); value != "" {
		since, _ = time.Parse(time.RFC3339, value)
	}
	end, breaks := k.cut(number)
	w.WriteHeader(http.StatusOK)
	flush := w.(http.Flusher).Flush
	flush()
	offset, i := 0, k.index(container, previous)
	send := func(text string, skipped bool) bool {
		part, cut := text, false
		if end >= 0 && offset+len(text) > end {
			part, cut = text[:max(0, end-offset)], true
		}
		offset += len(text)
		if !skipped {
			n, err := io.WriteString(w, part)
			flush()
			k.mu.Lock()
			k.sent += n
			k.mu.Unlock()
			if err != nil {
				return false
			}
		}
		if cut && breaks {
			panic(http.ErrAbortHandler)
		}
		return !cut
	}
	for next := 0; ; {
		content, changed, mute := k.at(container, i)
		for ; next < len(content.entries) && !mute; next++ {
			e := content.entries[next]
			if k.paced {
				select {
				case <-time.After(time.Until(e.time)):
				case <-r.Context().Done():
					return
				}
			}
			if !send(e.String(), e.time.Before(since)) {
				return
			}
		}
		if content.ended || !follow {
			send(content.raw, false)
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// apiServer starts a TLS server with the log endpoint of an API server, and returns a clientset for it. Its connections are in memory.
func apiServer(t testing.TB, k *kubelet) kubernetes.Interface {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/default/pods/web/log", func(w http.ResponseWriter, r *http.Request) {
		k.serve(w, r, r.URL.Query().Get("container"))
	})
	listener := &memoryListener{connections: make(chan net.Conn), closed: make(chan struct{})}
	server := httptest.NewUnstartedServer(mux)
	_ = server.Listener.Close()
	server.Listener = listener
	server.Config.ErrorLog = nil
	server.StartTLS()
	transport := server.Client().Transport.(*http.Transport).Clone()
	transport.DialContext = listener.dial
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.CloseClientConnections()
		server.Close()
	})
	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, Transport: transport, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return clientset
}

// A memoryListener accepts connections in memory, so that the time of a bubble can advance while they wait.
type memoryListener struct {
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.connections:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *memoryListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

func (l *memoryListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.connections <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// newPod returns a pod whose containers run.
func newPod(containers ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	for _, name := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Image: "app"})
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, running(name, 0))
	}
	pod.Status.Phase = corev1.PodRunning
	return pod
}

func running(name string, restarts int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: name, RestartCount: restarts, ContainerID: fmt.Sprintf("containerd://%s-%d", name, restarts),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}
}

func terminated(name string, restarts int32) corev1.ContainerStatus {
	id := fmt.Sprintf("containerd://%s-%d", name, restarts)
	return corev1.ContainerStatus{
		Name: name, RestartCount: restarts, ContainerID: id,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: id}},
	}
}

// A recorder records handled lines.
type recorder struct {
	mu    sync.Mutex
	lines []logs.Line
	added chan struct{} // closed at the next line
}

func newRecorder() *recorder { return &recorder{added: make(chan struct{})} }

func (r *recorder) handle(_ context.Context, _ *kopf.Request[*corev1.Pod], line logs.Line) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
	close(r.added)
	r.added = make(chan struct{})
	return nil
}

func (r *recorder) texts() (texts []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.lines {
		texts = append(texts, line.Text)
	}
	return texts
}

// wait waits for a number of lines.
func (r *recorder) wait(t testing.TB, n int) {
	t.Helper()
	limit := time.After(time.Minute)
	if time.Now().Year() == start.Year() { // virtual time
		limit = time.After(200 * time.Hour)
	}
	for {
		r.mu.Lock()
		have, added := len(r.lines), r.added
		r.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-added:
		case <-limit:
			t.Fatalf("%d lines handled, want %d", have, n)
		}
	}
}

// A process is one life of a process that runs the daemon directly, without an operator.
type process struct {
	cancel context.CancelCauseFunc
	ended  chan error
}

// launch starts a daemon for the stored pod.
func launch(t testing.TB, c client.Client, daemon kopf.Handler[*corev1.Pod]) *process {
	t.Helper()
	pod := &corev1.Pod{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, pod); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(kopftest.Context(t))
	p := &process{cancel, make(chan error, 1)}
	go func() {
		p.ended <- daemon(ctx, &kopf.Request[*corev1.Pod]{Object: pod, Handler: "lines", Client: c})
	}()
	return p
}

func (p *process) stop(t testing.TB, cause error) {
	t.Helper()
	p.cancel(cause)
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
}

// A patchedClient calls a function instead of Patch.
type patchedClient struct {
	client.Client
	patch func(ctx context.Context, obj client.Object, patch client.Patch) error
}

func (c patchedClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return c.patch(ctx, obj, patch)
}

func equal(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		at := 0
		for at < min(len(got), len(want)) && got[at] == want[at] {
			at++
		}
		t.Fatalf("%s: %d lines handled, want %d; the first difference is at %d: got %q, want %q", what, len(got), len(want), at, got[at:min(len(got), at+3)], want[at:min(len(want), at+3)])
	}
}

func join(entries []entry) string {
	var b bytes.Buffer
	for _, e := range entries {
		b.WriteString(e.String())
	}
	return strings.Clone(b.String())
}
