package statuspage

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
)

// The paths of the page and its data.
const (
	Path        = "/kopf/"
	ObjectsPath = Path + "objects"
	ExplainPath = Path + "explain"
)

const (
	scriptPath = Path + "page.js"
	stylePath  = Path + "page.css"
)

// Serves reports whether the status page has something to serve at a path.
func Serves(path string) bool {
	return slices.Contains([]string{Path, scriptPath, stylePath, ObjectsPath, ExplainPath}, path)
}

// Source is the operator that the page shows. Its methods are safe for concurrent use.
type Source interface {
	// Kinds returns all kinds with their objects. It returns [ErrNotRunning] if the operator is not running.
	Kinds() ([]Kind, error)
	// Explain explains one object. It returns [ErrNotRunning] if the operator is not running.
	Explain(ctx context.Context, kind schema.GroupKind, key types.NamespacedName) (*explain.Explanation, error)
}

// ErrNotRunning means that the operator is not running in this process.
var ErrNotRunning = errors.New("the operator is not running in this process: it is starting, or another replica is the leader")

// ErrUnknownKind means that the operator doesn't handle the kind.
var ErrUnknownKind = errors.New("the operator handles no objects of the kind")

// Kind is a kind with its objects.
type Kind struct {
	Group    string   `json:"group"`
	Version  string   `json:"version"`
	Kind     string   `json:"kind"`
	Handlers []string `json:"handlers"`
	Objects  []Object `json:"objects"`
}

// Object is an object as the page lists it.
type Object struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Unfinished lists the handlers that have started to handle a cause but have not succeeded yet.
	Unfinished []Unfinished `json:"unfinished,omitempty"`
	Deleting   bool         `json:"deleting,omitempty"`
	// Paused is true while the operator is paused for the object.
	Paused bool `json:"paused,omitempty"`
	// Looping is true while the object's handlers trigger themselves.
	Looping bool `json:"looping,omitempty"`
	// Waits says what the object is waiting for.
	Waits []string `json:"waits,omitempty"`
	// Error is the last reconcile's error.
	Error string `json:"error,omitempty"`
}

// Unfinished is a handler that has started but not succeeded.
type Unfinished struct {
	Handler  string        `json:"handler"`
	State    explain.State `json:"state"`
	Attempts int           `json:"attempts"`
	Error    string        `json:"error,omitempty"`
}

//go:embed page.html
var page []byte

//go:embed page.js
var script []byte

//go:embed page.css
var style []byte

// New returns the HTTP handler for all paths below [Path].
func New(source Source) http.Handler {
	mux := http.NewServeMux()
	for path, file := range map[string]struct {
		mediaType string
		content   []byte
	}{
		Path + "{$}": {"text/html; charset=utf-8", page},
		scriptPath:   {"text/javascript; charset=utf-8", script},
		stylePath:    {"text/css; charset=utf-8", style},
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", file.mediaType)
			_, _ = w.Write(file.content) // an error means that the client has disconnected
		})
	}
	mux.HandleFunc("GET "+ObjectsPath, func(w http.ResponseWriter, _ *http.Request) {
		kinds, err := source.Kinds()
		if err != nil {
			fail(w, statusOf(err), err)
			return
		}
		write(w, http.StatusOK, kinds)
	})
	mux.HandleFunc("GET "+ExplainPath, func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if query.Get("kind") == "" || query.Get("name") == "" {
			fail(w, http.StatusBadRequest, errors.New("set the parameters kind and name, and also group and namespace if the object has them"))
			return
		}
		explanation, err := source.Explain(r.Context(), schema.GroupKind{Group: query.Get("group"), Kind: query.Get("kind")},
			types.NamespacedName{Namespace: query.Get("namespace"), Name: query.Get("name")})
		if err != nil {
			fail(w, statusOf(err), err)
			return
		}
		write(w, http.StatusOK, described{explanation, explanation.Summary()})
	})
	return secured(mux)
}

// described is an explanation with the summary that the page shows.
type described struct {
	*explain.Explanation

	Summary string `json:"summary"`
}

// secured sets headers that let the browser load nothing but the page's own files.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, ErrNotRunning):
		return http.StatusServiceUnavailable
	case errors.Is(err, ErrUnknownKind):
		return http.StatusNotFound
	default: // a request to the API server has failed
		return http.StatusBadGateway
	}
}

// Failure is the body of an error response.
type Failure struct {
	Error string `json:"error"`
}

func fail(w http.ResponseWriter, status int, err error) { write(w, status, Failure{err.Error()}) }

func write(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // an error means that the client has disconnected
}
