package apiserver

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kopf-runtime/kopf-runtime/internal/crdschema"
)

// A Server is an [http.RoundTripper] that answers Kubernetes API requests from objects in memory. It is safe for concurrent use.
type Server struct {
	resources atomic.Pointer[[]Resource]

	mu       sync.Mutex
	version  int64
	objects  map[key]object
	events   []event
	changed  chan struct{} // closed by notifyWatches; nil if nextChange hasn't been called since
	managers map[managerKey]*manager
	schemas  map[schema.GroupVersionKind]*crdschema.Schema // converted schemas of custom kinds
	rand     *rand.Rand                                    // for generated names
}

// An object is a Kubernetes object in its JSON form. Stored objects are never modified.
type object = map[string]any

type key struct {
	gvr             schema.GroupVersionResource
	namespace, name string
}

type event struct {
	kind    string // ADDED, MODIFIED or DELETED
	key     key
	version int64
	object  object
	before  object // the object before the event; nil if it was added
}

// New returns a server without objects. If two resources have the same kind or plural name in the same version, the later one wins.
func New(resources ...Resource) *Server {
	s := &Server{
		version: 1, objects: map[key]object{}, managers: map[managerKey]*manager{},
		schemas: map[schema.GroupVersionKind]*crdschema.Schema{},
		rand:    rand.New(rand.NewPCG(1, 2)), //nolint:gosec // each run should generate the same names
	}
	merged := mergeResources(resources)
	s.resources.Store(&merged)
	return s
}

// RoundTrip handles a request. It returns an error only if the request's context was cancelled. Any other failure is returned as a response
// whose body is a Status.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) { return s.roundTrip(r, nil) }

// roundTrip handles a request. replica is the replica that received it, or nil.
func (s *Server) roundTrip(r *http.Request, replica *Replica) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	a, err := s.route(r, replica)
	if ended := r.Context().Err(); ended != nil && errors.Is(err, ended) {
		return nil, err
	}
	if err != nil {
		a = errorResponse(err)
	}
	return a.response(r), nil
}

// CurrentVersion returns the store's version, which each change increments.
func (s *Server) CurrentVersion() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// store stores an object with a new version and notifies the watches. It returns the stored object.
func (s *Server) store(k key, obj object) object {
	s.version++
	obj = s.put(k, obj)
	if k, other, ok := otherForm(k, obj); ok {
		if r, served := s.resource(k.gvr.GroupVersion(), k.gvr.Resource); served {
			if other, err := s.normalize(r, other); err == nil {
				s.put(k, other)
			}
		}
	}
	return obj
}

// put stores an object with the current version.
func (s *Server) put(k key, obj object) object {
	obj = withVersion(obj, s.version)
	before, known := s.objects[k]
	s.objects[k] = obj
	if known {
		s.appendEvent(event{"MODIFIED", k, s.version, obj, before})
	} else {
		s.appendEvent(event{"ADDED", k, s.version, obj, nil})
	}
	return obj
}

// removeStored removes an object. As on a real server, watches report its last stored state.
func (s *Server) removeStored(k key) {
	s.version++
	s.drop(k)
	if k, _, ok := otherForm(k, nil); ok {
		s.drop(k)
	}
}

// drop removes an object, if it exists, at the current version.
func (s *Server) drop(k key) {
	before, known := s.objects[k]
	if !known {
		return
	}
	delete(s.objects, k)
	s.appendEvent(event{"DELETED", k, s.version, withVersion(before, s.version), before})
}

func (s *Server) appendEvent(e event) {
	s.events = append(s.events, e)
	s.notifyWatches()
}

func (s *Server) notifyWatches() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// nextChange returns a channel that the next notifyWatches call closes.
func (s *Server) nextChange() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// withVersion returns a copy of an object with a different resourceVersion. The copy shares all other fields.
func withVersion(obj object, version int64) object {
	return withField(obj, "metadata", withField(metaOf(obj), "resourceVersion", strconv.FormatInt(version, 10)))
}
