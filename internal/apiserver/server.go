package apiserver

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Server keeps the objects of its kinds. It is safe for concurrent use.
type Server struct {
	resources []Resource

	mu       sync.Mutex
	version  int64
	objects  map[key]object
	events   []event
	news     chan struct{} // closed with the next event; nil while nobody waits for it
	managers map[managed]*manager
	shapes   map[schema.GroupVersionKind]*shape
	rand     *rand.Rand // of generated names
}

// An object is in its JSON form. It is never changed once it is stored.
type object = map[string]any

type key struct {
	gvr             schema.GroupVersionResource
	namespace, name string
}

type event struct {
	kind    string // ADDED, MODIFIED, DELETED
	key     key
	version int64
	object  object
	before  object // nil for what was added
}

// New returns a server without objects. When a kind is given twice in the same version, the later one wins.
func New(resources ...Resource) *Server {
	return &Server{
		resources: catalogue(resources), version: 1, objects: map[key]object{}, managers: map[managed]*manager{},
		shapes: map[schema.GroupVersionKind]*shape{},
		rand:   rand.New(rand.NewPCG(1, 2)), //nolint:gosec // names are the same in each run
	}
}

// RoundTrip answers a request.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) { return s.roundTrip(r, nil) }

// roundTrip answers a request that was sent to a replica, or, if that is nil, to the server itself.
func (s *Server) roundTrip(r *http.Request, replica *Replica) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	a, err := s.route(r, replica)
	if err != nil {
		a = refusal(err)
	}
	return a.response(r), nil
}

// Versions counts the writes that have changed something.
func (s *Server) Versions() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// put stores an object in a new version, and tells it to the watches. It returns what is stored.
func (s *Server) put(k key, obj object) object {
	s.version++
	obj = withVersion(obj, s.version)
	before, known := s.objects[k]
	s.objects[k] = obj
	if known {
		s.tell(event{"MODIFIED", k, s.version, obj, before})
	} else {
		s.tell(event{"ADDED", k, s.version, obj, nil})
	}
	return obj
}

// drop removes an object. As on a real server, what watches see of it is the object as it was stored.
func (s *Server) drop(k key) {
	s.version++
	before := s.objects[k]
	delete(s.objects, k)
	s.tell(event{"DELETED", k, s.version, withVersion(before, s.version), before})
}

func (s *Server) tell(e event) {
	s.events = append(s.events, e)
	s.wake()
}

// wake wakes all who wait for something new.
func (s *Server) wake() {
	if s.news != nil {
		close(s.news)
		s.news = nil
	}
}

// later is closed when there is something new.
func (s *Server) later() <-chan struct{} {
	if s.news == nil {
		s.news = make(chan struct{})
	}
	return s.news
}

// withVersion is the object in another version; the rest of it is shared.
func withVersion(obj object, version int64) object {
	return with(obj, "metadata", with(metaOf(obj), "resourceVersion", strconv.FormatInt(version, 10)))
}
