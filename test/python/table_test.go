package python

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// tableEnv is the environment variable with the table of an operator. With it, the test binary runs an operator instead of tests.
const tableEnv = "KOPF_PYTHON_TABLE"

// A table declares an operator. Both sides read it as JSON.
type table struct {
	Server    string `json:"server"`  // answers what handlers should do
	Process   string `json:"process"` // name of the process in calls, and its identity as a peer
	Namespace string `json:"namespace"`

	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	Plural  string `json:"plural"`

	Store     string    `json:"store"`
	Prefix    string    `json:"prefix"`
	Finalizer string    `json:"finalizer,omitempty"`
	Handlers  []handler `json:"handlers"`

	Peering     string `json:"peering,omitempty"` // name of the peering object; empty: no peering
	Clusterwide bool   `json:"clusterwide,omitempty"`
	Priority    int    `json:"priority,omitempty"`
	Lifetime    int    `json:"lifetime,omitempty"` // in seconds
	Share       string `json:"share,omitempty"`    // value of the label "share" on the objects of this operator; peers have others
	Skew        int    `json:"skew,omitempty"`     // of the clock of kopf's peering, in seconds

	Certificate string `json:"certificate,omitempty"` // file with the certificate for admission and its key

	Damage string `json:"damage,omitempty"` // what is wrong with the operator in Go
}

// A handler is a handler in both languages.
type handler struct {
	ID     string   `json:"id"`
	Causes []string `json:"causes"`
	Case   string   `json:"case,omitempty"` // value of the label "case" on its objects
	Field  string   `json:"field,omitempty"`
	Subs   []string `json:"subs,omitempty"`

	Backoff float64 `json:"backoff,omitempty"` // in seconds
	Retries int     `json:"retries,omitempty"`

	Admission string `json:"admission,omitempty"` // mutate or validate

	Daemon   bool    `json:"daemon,omitempty"`
	Interval float64 `json:"interval,omitempty"` // of a timer, in seconds
}

// A call is a call of a handler.
type call struct {
	Process string `json:"process"`
	Handler string `json:"handler"` // without the field
	Object  string `json:"object"`
	Cause   string `json:"cause"`
	Retry   int    `json:"retry"`
	Old     any    `json:"old"`
	New     any    `json:"new"`
	Diff    []any  `json:"diff"` // of [operation, path, old, new]

	at time.Time
}

// An answer says what the handler does.
type answer struct {
	Do     string  `json:"do"`
	Delay  float64 `json:"delay,omitempty"` // in seconds
	Result any     `json:"result,omitempty"`
	Event  bool    `json:"event,omitempty"` // whether the handler posts an Event for its object
}

const (
	doSucceed   = "succeed"
	doTemporary = "temporary"
	doPermanent = "permanent"
	doError     = "error"
	doBlock     = "block" // until the process is killed
)

var (
	succeed   = answer{Do: doSucceed}
	permanent = answer{Do: doPermanent}
	broken    = answer{Do: doError}
	block     = answer{Do: doBlock}
)

func temporary(delay float64) answer { return answer{Do: doTemporary, Delay: delay} }

// A callLog is the HTTP server that handlers ask.
type callLog struct {
	*httptest.Server

	mu    sync.Mutex
	calls []call
}

// newCallLog starts the server. The number of earlier calls of the same handler for the same object by the same process is the second argument
// of reply.
func newCallLog(t *testing.T, reply func(c call, earlier int) answer) *callLog {
	log := &callLog{}
	log.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var c call
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		c.at = time.Now()
		a := reply(c, log.add(c))
		if a.Do == doBlock {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(a) // fails if the process was killed
	}))
	t.Cleanup(log.Close)
	return log
}

// add appends a call and returns the number of earlier ones.
func (l *callLog) add(c call) (earlier int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, other := range l.calls {
		if other.Process == c.Process && other.Handler == c.Handler && other.Object == c.Object && other.Cause == c.Cause {
			earlier++
		}
	}
	l.calls = append(l.calls, c)
	return earlier
}

// of returns the calls for an object by a process, in order. Without a process, it returns those of all processes.
func (l *callLog) of(object, process string) (calls []call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if c.Object == object && (process == "" || c.Process == process) {
			calls = append(calls, c)
		}
	}
	return calls
}

// callsOf returns the calls of a handler.
func callsOf(calls []call, handler string) []call {
	return slices.DeleteFunc(slices.Clone(calls), func(c call) bool { return c.Handler != handler })
}

// A Plain is a Thing without the status subresource.
var (
	thingKind = schema.GroupVersionKind{Group: "python.example.com", Version: "v1", Kind: "Thing"}
	guardKind = schema.GroupVersionKind{Group: "python.example.com", Version: "v1", Kind: "Guard"} // for admission
	plainKind = schema.GroupVersionKind{Group: "python.example.com", Version: "v1", Kind: "Plain"}
)

func plural(gvk schema.GroupVersionKind) string { return strings.ToLower(gvk.Kind) + "s" }
