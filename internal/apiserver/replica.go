package apiserver

import (
	"fmt"
	"net/http"
	"sort"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Replica is a second API server on the same store. Its read cache may lag behind the store, as in a cluster with several API servers. A
// Replica is an [http.RoundTripper] and safe for concurrent use.
//
// The store answers writes and reads without a resourceVersion. All other reads come from the cache. A get or list with a resourceVersion
// above 0 waits until the cache has reached this version, unless resourceVersionMatch is Exact. Like a real server, a replica gives up
// after three seconds and returns "Too large resource version". A watch without a list doesn't wait.
//
// The cache also answers a watch that starts with a list (sendInitialEvents) and has no resourceVersion. The watch waits in the same way,
// until the cache has reached the store's current version. client-go retries after a timeout. If [Replica.RefuseWatchLists] made the
// replica reject the watch, client-go falls back to a list with resourceVersion "0", which comes from the cache.
type Replica struct {
	server *Server

	// guarded by the server's mutex
	lags              bool
	version           int64 // version of the lagging cache
	refusesWatchLists bool
}

// Replica returns a new replica that does not lag.
func (s *Server) Replica() *Replica { return &Replica{server: s} }

// RoundTrip handles a request like [Server.RoundTrip].
func (r *Replica) RoundTrip(req *http.Request) (*http.Response, error) {
	return r.server.roundTrip(req, r)
}

// LagAt makes the cache follow the store up to a version and then stay there, until the next call of LagAt or CatchUp.
func (r *Replica) LagAt(version int64) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	r.lags, r.version = true, version
	r.server.notifyWatches()
}

// CatchUp makes the cache follow the store again. Watches receive the events they have missed.
func (r *Replica) CatchUp() {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	r.lags = false
	r.server.notifyWatches()
}

// RefuseWatchLists makes the replica reject watches with sendInitialEvents, like a server without this feature. Clients then list instead.
func (r *Replica) RefuseWatchLists() {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	r.refusesWatchLists = true
}

// current returns the cache's version. The caller must hold the server's lock.
func (r *Replica) current() int64 {
	if r.lags {
		return min(r.version, r.server.version)
	}
	return r.server.version
}

// replicaTimeout limits how long a replica waits for its cache.
const replicaTimeout = 3 * time.Second

// prepare selects the state for a read, and waits until the cache has reached it.
func (r *Replica) prepare(q *request) error {
	if q.Method != http.MethodGet {
		return nil
	}
	initial := q.query.Get("sendInitialEvents") == "true"
	version, err := parseVersion(q.query.Get("resourceVersion"))
	if err != nil {
		return err
	}
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	switch unset := q.query.Get("resourceVersion") == ""; {
	case q.watches && initial && r.refusesWatchLists:
		return apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", field.ErrorList{field.Forbidden(
			field.NewPath("sendInitialEvents"), "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")})
	case unset && !initial:
		return nil // consistent read from the store
	case unset:
		version = r.server.version
	case q.query.Get("resourceVersionMatch") == string(metav1.ResourceVersionMatchExact):
		q.replica, q.asOf = r, version
		return nil
	}
	if !q.watches || initial {
		if err := r.await(q, version); err != nil {
			return err
		}
	}
	q.replica, q.asOf = r, r.current()
	return nil
}

// await waits until the cache has reached a version. It releases the server's lock in the meantime.
func (r *Replica) await(q *request, version int64) error {
	expired := time.NewTimer(replicaTimeout)
	defer expired.Stop()
	for r.current() < version {
		changed := r.server.nextChange()
		r.server.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-q.Context().Done():
			err = q.Context().Err()
		case <-expired.C:
			err = tooLarge(version)
		}
		r.server.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}

func parseVersion(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	version, err := strconv.ParseInt(text, 10, 64)
	if err != nil || version < 0 {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version %q", text))
	}
	return version, nil
}

// tooLarge is the error for a version that the cache hasn't reached in time.
func tooLarge(version int64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d", version), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{
		{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"},
	}
	return err
}

func (s *Server) readVersion(q *request) int64 {
	if q.replica != nil {
		return q.asOf
	}
	return s.version
}

// countEventsUpTo returns how many events there are up to a version.
func (s *Server) countEventsUpTo(version int64) int {
	return sort.Search(len(s.events), func(i int) bool { return s.events[i].version > version })
}

// stateAt returns all objects as they were at a version.
func (s *Server) stateAt(version int64) map[key]object {
	out := map[key]object{}
	for _, e := range s.events[:s.countEventsUpTo(version)] {
		if e.kind == "DELETED" {
			delete(out, e.key)
		} else {
			out[e.key] = e.object
		}
	}
	return out
}

// A Change is a new version of an object, or its deletion.
type Change struct {
	Version int64
	// Resource is a plural name, such as "widgets".
	Resource string
	// Object is the object in this version, or its last state if it was deleted. The caller must not modify it.
	Object  map[string]any
	Deleted bool
}

// Changes returns all changes after a version, in order.
func (s *Server) Changes(after int64) (out []Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events[s.countEventsUpTo(after):] {
		out = append(out, Change{e.version, e.key.gvr.Resource, e.object, e.kind == "DELETED"})
	}
	return out
}
