package apiserver

import (
	"net/http"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Resource is one kind that the server has.
type Resource struct {
	Kind, Plural string
	HasStatus    bool // it has the status subresource
}

// A Server keeps the objects of one API group. It is safe for concurrent use.
type Server struct {
	group     schema.GroupVersion
	resources []Resource

	mu      sync.Mutex
	version int64
	objects map[key]object
	events  []event
	news    chan struct{} // closed with the next event
}

// An object is in its JSON form. It is never changed once it is stored.
type object = map[string]any

type key struct{ plural, namespace, name string }

type event struct {
	kind    string // ADDED, MODIFIED, DELETED
	key     key
	version int64
	object  object
}

// New returns a server without objects.
func New(group schema.GroupVersion, resources ...Resource) *Server {
	return &Server{
		group: group, resources: resources, version: 1,
		objects: map[key]object{}, news: make(chan struct{}),
	}
}

// RoundTrip answers a request.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return s.route(r).response(r), nil
}

// Versions counts the writes that have changed something.
func (s *Server) Versions() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// put stores an object in a new version; with it, the object is told to the watches.
func (s *Server) put(kind string, k key, obj object) object {
	s.version++
	meta := nested(obj, "metadata")
	meta["resourceVersion"] = strconv.FormatInt(s.version, 10)
	if kind == "DELETED" {
		delete(s.objects, k)
	} else {
		s.objects[k] = obj
	}
	s.events = append(s.events, event{kind, k, s.version, obj})
	close(s.news)
	s.news = make(chan struct{})
	return obj
}

func (s *Server) resource(plural string) (Resource, bool) {
	i := slices.IndexFunc(s.resources, func(r Resource) bool { return r.Plural == plural })
	if i < 0 {
		return Resource{}, false
	}
	return s.resources[i], true
}
