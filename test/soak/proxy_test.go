package soak

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// fault is a kind of fault that a proxy injects into the requests of its operators.
type fault string

const (
	noFault       fault = ""
	lostAnswers   fault = "lost answers"    // the server executes writes, but their responses are lost
	unavailable   fault = "503s"            // half of the requests fail with status 503
	cutWatches    fault = "cut watches"     // open watches end, and new watches fail
	expireWatches fault = "expired watches" // open watches end and their resource versions are expired
	silentWatches fault = "silent watches"  // watches stay open but deliver no events
)

var apiFaults = []fault{lostAnswers, unavailable, cutWatches, expireWatches, silentWatches}

// proxy forwards requests to the API server and injects faults. It is safe for concurrent use.
type proxy struct {
	*httptest.Server
	next *httputil.ReverseProxy

	mu       sync.Mutex
	fault    fault
	changed  chan struct{} // channel that is closed when the fault changes
	cut      context.CancelCauseFunc
	open     context.Context // context of the watches, which end when it is cancelled
	affected map[fault]int   // number of requests that each fault has affected
}

func newProxy(config *rest.Config) (*proxy, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	p := &proxy{
		next: &httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
			Transport:     transport,
			FlushInterval: -1,
			ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		},
		changed: make(chan struct{}), affected: map[fault]int{},
	}
	p.open, p.cut = context.WithCancelCause(context.Background())
	p.Server = httptest.NewUnstartedServer(p)
	p.Server.Config.ErrorLog = nil
	p.Start()
	return p, nil
}

// set replaces the active fault.
func (p *proxy) set(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// A silent stream either continues or breaks when the silence ends.
	breaks := f == cutWatches || f == expireWatches || p.fault == silentWatches && rand.IntN(2) == 0
	p.fault = f
	close(p.changed)
	p.changed = make(chan struct{})
	if breaks {
		p.cut(nil)
		p.open, p.cut = context.WithCancelCause(context.Background())
	}
}

func (p *proxy) state() (f fault, changed <-chan struct{}, open context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.changed, p.open
}

func (p *proxy) count(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.affected[f]++
}

// figures formats the number of affected requests for each fault.
func (p *proxy) figures() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, f := range apiFaults {
		out = append(out, fmt.Sprintf("%s %d", f, p.affected[f]))
	}
	return strings.Join(out, ", ")
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, _, open := p.state()
	if r.URL.Query().Get("watch") != "" {
		p.watch(open, f, w, r)
		return
	}
	switch {
	case f == unavailable && rand.IntN(2) == 0:
		p.count(f)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","message":"unavailable by the test","code":503}`)
	case f == lostAnswers && r.Method != http.MethodGet && rand.IntN(3) == 0:
		p.count(f)
		p.next.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	default:
		p.next.ServeHTTP(w, r)
	}
}

func (p *proxy) watch(open context.Context, f fault, w http.ResponseWriter, r *http.Request) {
	initial := r.URL.Query().Get("sendInitialEvents") == "true"
	switch {
	case f == cutWatches:
		p.count(f)
		panic(http.ErrAbortHandler)
	case f == expireWatches && !initial:
		p.count(f)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusGone)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"too old resource version by the test","code":410}`)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(open, cancel)()
	p.next.ServeHTTP(&watchWriter{ResponseWriter: w, proxy: p, ctx: ctx}, r.WithContext(ctx))
}

// watchWriter delays the events of a watch while the fault silentWatches is active.
type watchWriter struct {
	http.ResponseWriter
	proxy *proxy
	ctx   context.Context //nolint:containedctx // the writer exists only while the server answers the request
}

func (w *watchWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *watchWriter) Write(data []byte) (int, error) {
	for {
		f, changed, _ := w.proxy.state()
		if f != silentWatches {
			return w.ResponseWriter.Write(data)
		}
		w.proxy.count(f)
		select {
		case <-changed:
		case <-w.ctx.Done():
			return 0, w.ctx.Err()
		}
	}
}

// kubeconfig returns a kubeconfig that connects through the proxy.
func (p *proxy) kubeconfig() []byte {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],`+
		`"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{}}]}`, p.URL)
}

// post sends a record to the ledger of the parent process.
func post(address string, query url.Values) error {
	client := &http.Client{Timeout: 10 * time.Second}
	response, err := client.Post(address+"?"+query.Encode(), "text/plain", bytes.NewReader(nil))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the ledger answered %s", response.Status)
	}
	return nil
}
