package simulation

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
	"github.com/kopf-runtime/kopf-runtime/test/sharder"
)

const (
	ring          = "widgets"
	leaseDuration = 15 * time.Second
)

// A shardWorld is a simulation of several shards, a sharder and users. The ledger records each attempt of each handler.
type shardWorld struct {
	*testing.T
	config  *rest.Config
	scheme  *runtime.Scheme
	users   client.Client
	random  *rand.Rand
	gentle  bool // processes end only gracefully, so that each change is handled exactly once
	sharder *sharder.Sharder
	options []kopf.Option // of all operators

	// slowStop is the additional time of daemons, and of each manager, after a stop.
	slowStop time.Duration

	mu        sync.Mutex
	work      *rand.Rand    // decides how long handlers take
	longest   time.Duration // of a handler
	processes []*shardProcess
	attempts  map[*shardAttempt]bool // that are running
	handled   map[string][]string    // what was handled of each object, by uid
	sizes     map[string]int         // the last size that was handled of each object, by uid
	tenures   map[string]*tenure     // of the shard that handles each object, by uid
	served    map[string]time.Time   // the begin of the first attempt for each object and size
	wrong     []string
	lines     []string
}

// A shardProcess is one process of a shard.
type shardProcess struct {
	name  string
	wall  atomic.Int64 // how far the wall clock is ahead
	world *shardWorld
	stop  context.CancelFunc
	ended chan struct{}
	err   error // of the manager, after its end

	mu       sync.Mutex
	dead     bool
	cut      bool // the API server cannot be reached
	silence  silence
	thawed   chan struct{} // nil unless the process is frozen
	frozenAt time.Time
	thaws    int
}

// silence describes which requests of a process get no response.
type silence int

const (
	noSilence     silence = iota
	lostRequests          // the API server receives no requests
	lostResponses         // the API server handles writes, but the process receives no responses to them
	stuckRequests         // like lostRequests, but the requests ignore the ends of their contexts, as if they wait for a credential plugin
)

// A shardAttempt is a running attempt of a handler, a daemon or a timer.
type shardAttempt struct {
	process  *shardProcess
	uid, id  string
	suspends bool // the process was frozen during the attempt, which cannot notice it
}

// A tenure is the time in which one process handles an object.
type tenure struct {
	process *shardProcess
	resumes int
	moved   bool // the object was handled completely before
}

func newShardWorld(t *testing.T, seed uint64) *shardWorld {
	t.Helper()
	s := apiserver.New(
		apiserver.Resource{GroupVersion: v1.GroupVersion, Kind: "Widget", Plural: "widgets", HasStatus: true},
		apiserver.Resource{GroupVersion: coordinationv1.SchemeGroupVersion, Kind: "Lease", Plural: "leases"},
		apiserver.Resource{GroupVersion: schema.GroupVersion{Group: "sharding.timebertt.dev", Version: "v1alpha1"}, Kind: "ControllerRing", Plural: "controllerrings", ClusterScoped: true})
	w := &shardWorld{
		T: t, longest: 3 * time.Second, scheme: runtime.NewScheme(), random: rand.New(rand.NewPCG(seed, 1)), work: rand.New(rand.NewPCG(seed, 2)),
		config:   &rest.Config{Host: "http://simulated", Transport: s, QPS: -1},
		attempts: map[*shardAttempt]bool{}, handled: map[string][]string{}, sizes: map[string]int{}, tenures: map[string]*tenure{}, served: map[string]time.Time{},
	}
	must(t, errors.Join(v1.AddToScheme(w.scheme), clientgoscheme.AddToScheme(w.scheme)))
	var err error
	w.users, err = client.New(w.config, client.Options{Scheme: w.scheme})
	must(t, err)
	must(t, w.users.Create(t.Context(), newRing()))
	w.sharder = &sharder.Sharder{Client: w.users, Ring: ring, Kinds: []schema.GroupVersionKind{v1.GroupVersion.WithKind("Widget")}}
	return w
}

func newRing() client.Object {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"resources": []any{map[string]any{"group": v1.GroupVersion.Group, "resource": "widgets"}},
	}}}
	obj.SetAPIVersion("sharding.timebertt.dev/v1alpha1")
	obj.SetKind("ControllerRing")
	obj.SetName(ring)
	return obj
}

func (w *shardWorld) notef(format string, args ...any) {
	w.lines = append(w.lines, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

func (w *shardWorld) logf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notef(format, args...)
}

func (w *shardWorld) violatef(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.wrong = append(w.wrong, text)
	w.notef("VIOLATION: %s", text)
}

// start starts a process of a shard, whose wall clock is ahead.
func (w *shardWorld) start(name string, ahead time.Duration) *shardProcess {
	w.Helper()
	p := &shardProcess{name: name, world: w, ended: make(chan struct{})}
	p.wall.Store(int64(ahead))
	own := rest.CopyConfig(w.config)
	own.Transport = transport(p.send)
	wall := func() time.Time { return time.Now().Add(time.Duration(p.wall.Load())) }
	mgr, err := manager.New(own, manager.Options{
		Scheme: w.scheme, Metrics: server.Options{BindAddress: "0"},
		BaseContext: func() context.Context { return testhook.WithWallClock(context.Background(), wall) },
	})
	must(w.T, err)
	options := append([]kopf.Option{
		p.resource(), kopf.WithSharding(sharding.ControllerRing(ring, sharding.ShardName(name), sharding.LeaseNamespace(namespace))),
	}, w.options...)
	must(w.T, kopf.SetupWithManager(mgr, options...))
	must(w.T, mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		<-time.After(w.slowStop)
		return nil
	})))
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	go func() {
		defer close(p.ended)
		p.err = mgr.Start(ctx)
		w.logf("%s has ended: %v", name, p.err)
	}()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.processes = append(w.processes, p)
	w.notef("%s starts, its clock is %s ahead", name, ahead)
	return p
}

// isRunning reports whether the process has neither ended nor been killed.
func (p *shardProcess) isRunning() bool {
	select {
	case <-p.ended:
		return false
	default:
		p.mu.Lock()
		defer p.mu.Unlock()
		return !p.dead
	}
}

func (w *shardWorld) running() []*shardProcess {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.processes), func(p *shardProcess) bool { return !p.isRunning() })
}

// kill ends the process like SIGKILL: it sends nothing any more, and its attempts do not count.
func (p *shardProcess) kill() {
	p.mu.Lock()
	p.dead = true
	p.mu.Unlock()
	p.thaw()
	p.world.mu.Lock()
	for a := range p.world.attempts {
		if a.process == p {
			delete(p.world.attempts, a)
		}
	}
	p.world.notef("%s is killed", p.name)
	p.world.mu.Unlock()
	p.stop()
}

// freeze suspends the process like SIGSTOP, until thaw is called.
func (p *shardProcess) freeze() {
	p.mu.Lock()
	p.thawed, p.frozenAt = make(chan struct{}), time.Now()
	p.mu.Unlock()
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	for a := range p.world.attempts {
		a.suspends = a.suspends || a.process == p
	}
	p.world.notef("%s is frozen", p.name)
}

// thaw continues a frozen process. Its clock jumps.
func (p *shardProcess) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.thawed == nil {
		return
	}
	p.wall.Add(int64(time.Since(p.frozenAt))) // as with a monotonic clock that stands still in the meantime
	close(p.thawed)
	p.thawed = nil
	p.thaws++
	p.world.logf("%s continues", p.name)
}

func (p *shardProcess) setCut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	p.world.logf("%s is cut off: %t", p.name, cut)
}

var errNoConnection = errors.New("no connection")

func (p *shardProcess) setSilence(what silence) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silence = what
	p.world.logf("%s gets no responses: %d", p.name, what)
}

// isSilent reports whether the process gets no response to a request, before or after the API server has handled it.
func (p *shardProcess) isSilent(r *http.Request, isHandled bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return (p.silence == lostRequests || p.silence == stuckRequests) && !isHandled || p.silence == lostResponses && isHandled && r.Method != http.MethodGet
}

// awaitTimeout waits until the process gives up a request: at its timeout, or when the health check of HTTP/2 in client-go ends the connection.
func (p *shardProcess) awaitTimeout(r *http.Request) error {
	p.mu.Lock()
	isStuck := p.silence == stuckRequests
	p.mu.Unlock()
	if isStuck {
		<-time.After(25 * time.Second)
	}
	select {
	case <-r.Context().Done():
	case <-time.After(45 * time.Second):
	}
	_, _ = p.await()
	return cmp.Or(r.Context().Err(), errNoConnection)
}

// await waits while the process is frozen. It returns how often the process has continued, and an error if the process cannot send requests.
func (p *shardProcess) await() (thaws int, err error) {
	for {
		p.mu.Lock()
		thawed, dead, cut, thaws := p.thawed, p.dead, p.cut, p.thaws
		p.mu.Unlock()
		if thawed != nil {
			<-thawed // also after the end of a context
			continue
		}
		if dead || cut {
			return thaws, errNoConnection
		}
		return thaws, nil
	}
}

func (p *shardProcess) isFrozen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.thawed != nil
}

// send sends a request. A frozen process sends nothing and receives no responses.
func (p *shardProcess) send(r *http.Request) (*http.Response, error) {
	if p.isFrozen() { // only possible in the simulation, whose goroutines continue
		_, _ = p.await()
		return nil, errNoConnection
	}
	if _, err := p.await(); err != nil {
		return nil, err
	}
	if p.isSilent(r, false) {
		return nil, p.awaitTimeout(r)
	}
	var sent []byte
	if r.Body != nil {
		sent, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	response, err := p.world.config.Transport.RoundTrip(r)
	if p.isSilent(r, true) {
		return nil, p.awaitTimeout(r)
	}
	if err == nil && r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/widgets/") && response.StatusCode < 300 {
		response.Body = p.checkWrite(sent, response.Body)
	}
	if _, cut := p.await(); cut != nil {
		return nil, cut
	}
	if err == nil {
		response.Body = &frozenBody{response.Body, p}
	}
	return response, err
}

// checkWrite checks that the process writes only objects with its label.
func (p *shardProcess) checkWrite(sent []byte, body io.ReadCloser) io.ReadCloser {
	text, _ := io.ReadAll(body)
	_ = body.Close()
	var written v1.Widget
	must(p.world.T, json.Unmarshal(text, &written))
	w := p.world
	w.mu.Lock()
	defer w.mu.Unlock()
	shard, isAssigned := written.Labels[sharding.ShardLabel(ring)]
	isRelease := bytes.Contains(sent, []byte(sharding.DrainLabel(ring)))
	switch {
	case isRelease:
		w.notef("%s releases %s", p.name, written.Name)
		for a := range w.attempts {
			if a.uid == string(written.UID) && a.process == p && !a.suspends {
				w.violatef("%s is released by %s before its %s has ended", a.uid, p.name, a.id)
			}
		}
		delete(w.tenures, string(written.UID))
	case !isAssigned || shard != p.name:
		w.violatef("%s writes %s, which belongs to %q: %s", p.name, written.Name, shard, sent)
	}
	return io.NopCloser(bytes.NewReader(text))
}

// A frozenBody delivers nothing while its process is frozen or cut off.
type frozenBody struct {
	io.ReadCloser
	process *shardProcess
}

func (b *frozenBody) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	if _, cut := b.process.await(); cut != nil {
		return 0, cut
	}
	return n, err
}

type widgetRequest = kopf.Request[widget]

func (p *shardProcess) resource() kopf.Option {
	w := p.world
	attempt := func(id string, done func(req *widgetRequest)) kopf.Handler[widget] {
		return func(ctx context.Context, req *widgetRequest) error {
			return w.attempt(ctx, p, id, req.Object, true, func() { done(req) })
		}
	}
	handled := func(what func(req *widgetRequest) string) func(req *widgetRequest) {
		return func(req *widgetRequest) {
			uid := string(req.Object.UID)
			w.handled[uid], w.sizes[uid] = append(w.handled[uid], what(req)), req.Object.Spec.Size
			w.notef("%s has handled %s of %s", p.name, what(req), req.Object.Name)
		}
	}
	return kopf.For(&v1.Widget{}).
		OnCreate("create", attempt("create", handled(func(*widgetRequest) string { return "created" }))).
		OnUpdate("size", attempt("size", handled(func(req *widgetRequest) string {
			return fmt.Sprintf("%v->%v", req.Diff[0].Old, req.Diff[0].New)
		})), kopf.Field("spec.size")).
		OnUpdate("any", attempt("any", func(req *widgetRequest) {
			for _, item := range req.Diff {
				if item.Path.String() != "spec.size" {
					w.violatef("%s: the update is about %s", req.Object.UID, item.Path)
				}
			}
		})).
		OnResume("resume", attempt("resume", func(req *widgetRequest) {
			if t := w.tenures[string(req.Object.UID)]; t != nil {
				if t.resumes++; t.resumes > 1 && w.gentle {
					w.violatef("%s is resumed %d times by %s", req.Object.UID, t.resumes, p.name)
				}
			}
		})).
		OnDelete("delete", attempt("delete", handled(func(*widgetRequest) string { return "deleted" }))).
		Timer("tick", daemons.Timer{Interval: 4 * time.Second}, attempt("tick", func(*widgetRequest) {})).
		Daemon("daemon", daemons.Daemon{CancellationTimeout: new(2 * time.Second)}, func(ctx context.Context, req *widgetRequest) error {
			return w.attempt(ctx, p, "daemon", req.Object, false, func() {})
		}) // it may take longer
}

// attempt records an attempt that works for some time; a daemon works until it is stopped, and a little longer.
func (w *shardWorld) attempt(ctx context.Context, p *shardProcess, id string, obj widget, ends bool, done func()) error {
	if p.isFrozen() {
		_, _ = p.await()
		return kopf.Temporary(errNoConnection, time.Second) // only possible in the simulation
	}
	a := &shardAttempt{process: p, uid: string(obj.UID), id: id}
	w.begin(a, obj)
	w.mu.Lock()
	took := time.Duration(w.work.Int64N(int64(w.longest)))
	w.mu.Unlock()
	if !ends {
		<-ctx.Done()
		<-time.After(took + w.slowStop)
	} else {
		select {
		case <-ctx.Done():
		case <-time.After(took):
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	defer delete(w.attempts, a)
	if !w.attempts[a] {
		return errNoConnection // the process was killed
	}
	if ends && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	done()
	return nil
}

// begin checks that no other process handles the object.
func (w *shardWorld) begin(a *shardAttempt, obj widget) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.process.isDead() {
		return
	}
	w.notef("%s begins %s of %s", a.process.name, a.id, obj.Name)
	for other := range w.attempts {
		if other.uid == a.uid && other.process != a.process && !other.suspends {
			w.violatef("two attempts: %s of %s begins in %s, and %s is running in %s", a.id, a.uid, a.process.name, other.id, other.process.name)
		}
	}
	w.attempts[a] = true
	if t := w.tenures[a.uid]; t == nil || t.process != a.process {
		w.tenures[a.uid] = &tenure{process: a.process, moved: len(w.handled[a.uid]) > 0}
	}
	key := fmt.Sprintf("%s %d", obj.UID, obj.Spec.Size)
	if _, known := w.served[key]; !known {
		w.served[key] = time.Now()
	}
}

func (p *shardProcess) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}
