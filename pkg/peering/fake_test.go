package peering

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	v1 "github.com/kopf-runtime/kopf-runtime/pkg/peering/v1"
)

// A fakeServer has peering objects in memory, for tests in virtual time. What it does is also tried on a real one.
type fakeServer struct {
	mu        sync.Mutex
	kinds     map[string]bool // group/plural
	objects   map[string]*unstructured.Unstructured
	version   int
	watchers  []*fakeWatcher
	mute      bool // answers neither to patches nor to questions
	patches   []fakePatch
	asked     int                      // what is served
	drops     bool                     // what it does not know in a status
	hasStatus bool                     // as a subresource, by now
	outdated  bool                     // is what it says of that
	late      map[string]time.Duration // to tell whether a group is served
	before    func(body string)        // a patch, with the lock
	fail      func(verb string) error  // of kind, list, watch and patch
}

type fakePatch struct {
	at        time.Time
	key, body string
	code      int
}

type fakeWatcher struct {
	key   string
	looks chan look
}

func newFakeServer(plurals ...string) *fakeServer {
	s := &fakeServer{kinds: map[string]bool{}, objects: map[string]*unstructured.Unstructured{}}
	for _, plural := range plurals {
		s.kinds[plural] = true
	}
	return s
}

const (
	clusterPeerings    = v1.Group + "/" + v1.ClusterPlural
	namespacedPeerings = v1.Group + "/" + v1.NamespacedPlural
	legacyPeerings     = v1.LegacyGroup + "/" + v1.ClusterPlural
)

func (s *fakeServer) failing(verb string) error {
	if s.fail == nil {
		return nil
	}
	return s.fail(verb)
}

// answer is waited for in vain if the server is mute.
func (s *fakeServer) answer(ctx context.Context) error {
	s.mu.Lock()
	mute := s.mute
	s.mu.Unlock()
	if mute {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (s *fakeServer) setMute() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mute = true
}

func (s *fakeServer) kind(ctx context.Context, group string, namespaced bool) (*kind, error) {
	if err := s.answer(ctx); err != nil {
		return nil, err
	}
	wait(ctx, s.late[group])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if err := s.failing("kind"); err != nil {
		return nil, err
	}
	resource := plural(namespaced)
	if !s.kinds[group+"/"+resource] {
		return nil, nil
	}
	return &kind{
		resource: schema.GroupVersionResource{Group: group, Version: v1.Version, Resource: resource}, name: "Peering", namespaced: namespaced,
		hasStatus: s.hasStatus != s.outdated,
	}, nil
}

func keyOf(k kind, namespace, name string) string {
	return k.resource.Group + "/" + k.resource.Resource + "/" + namespace + "/" + name
}

func (s *fakeServer) follow(ctx context.Context, k kind, namespace, name string, tell func(look)) error {
	key := keyOf(k, namespace, name)
	s.mu.Lock()
	if err := s.failing("list"); err != nil || !s.kinds[k.resource.Group+"/"+k.resource.Resource] {
		s.mu.Unlock()
		if err == nil {
			err = errUnserved
		}
		return err
	}
	if err := s.failing("watch"); err != nil {
		s.mu.Unlock()
		return err
	}
	w := &fakeWatcher{key: key, looks: make(chan look, 10000)}
	w.looks <- look{object: s.objects[key].DeepCopy()}
	s.watchers = append(s.watchers, w)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watchers = slices.DeleteFunc(s.watchers, func(one *fakeWatcher) bool { return one == w })
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case l, open := <-w.looks:
			if !open {
				return nil
			}
			tell(l)
		}
	}
}

func (s *fakeServer) patch(ctx context.Context, k kind, namespace, name string, body []byte) (*unstructured.Unstructured, error) {
	return s.patchAs(ctx, k, keyOf(k, namespace, name), body)
}

// patchKey is for somebody who knows how the kind is served.
func (s *fakeServer) patchKey(ctx context.Context, key string, body []byte) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	k := kind{hasStatus: s.hasStatus}
	s.mu.Unlock()
	return s.patchAs(ctx, k, key, body)
}

func (s *fakeServer) patchAs(ctx context.Context, k kind, key string, body []byte) (result *unstructured.Unstructured, err error) {
	if err := s.answer(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		code := 200
		if err != nil {
			code = 500
			if status := apierrors.APIStatus(nil); errors.As(err, &status) {
				code = int(status.Status().Code)
			}
		}
		s.patches = append(s.patches, fakePatch{at: time.Now(), key: key, body: string(body), code: code})
	}()
	resource := schema.GroupResource{Group: v1.Group, Resource: "peerings"}
	if err := s.failing("patch"); err != nil {
		return nil, err
	}
	if s.before != nil {
		s.before(string(body))
	}
	object := s.objects[key]
	if object == nil || k.hasStatus && !s.hasStatus {
		return nil, apierrors.NewNotFound(resource, key)
	}
	var change struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Status map[string]any `json:"status"`
	}
	if err := utiljson.Unmarshal(body, &change); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if v := change.Metadata.ResourceVersion; v != "" && v != object.GetResourceVersion() {
		return nil, apierrors.NewConflict(resource, key, fmt.Errorf("it is %s", object.GetResourceVersion()))
	}
	patched := object.DeepCopy()
	status, _ := patched.Object["status"].(map[string]any)
	if status == nil {
		status = map[string]any{}
		patched.Object["status"] = status
	}
	for identity, value := range change.Status {
		if s.drops || s.hasStatus && !k.hasStatus {
			continue
		}
		if status[identity] = value; value == nil {
			delete(status, identity)
		}
	}
	s.store(key, patched)
	return patched.DeepCopy(), nil
}

// store tells the watchers, too. It is called with the lock.
func (s *fakeServer) store(key string, object *unstructured.Unstructured) {
	s.version++
	object.SetResourceVersion(strconv.Itoa(s.version))
	s.objects[key] = object
	s.publish(key, look{object: object.DeepCopy()})
}

func (s *fakeServer) publish(key string, l look) {
	for _, w := range s.watchers {
		if w.key == key {
			w.looks <- l
		}
	}
}

// create makes an object, with a status.
func (s *fakeServer) create(key string, status map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kopf.dev/v1", "kind": "Peering", "status": status}}
	object.SetName("default")
	object.SetUID(types.UID(fmt.Sprint("uid-", s.version)))
	s.store(key, object)
}

func (s *fakeServer) delete(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object := s.objects[key]
	delete(s.objects, key)
	s.publish(key, look{gone: object.GetUID()})
}

// put writes a record of somebody else, or removes it if it is nil.
func (s *fakeServer) put(key, identity string, record any) {
	body, err := json.Marshal(map[string]any{"status": map[string]any{identity: record}})
	if err != nil {
		panic(err)
	}
	if _, err := s.patchKey(context.Background(), key, body); err != nil {
		panic(err)
	}
}

// refresh writes a record with the lock held.
func (s *fakeServer) refresh(key, identity string, record map[string]any) {
	object := s.objects[key].DeepCopy()
	object.Object["status"].(map[string]any)[identity] = record
	s.store(key, object)
}

func (s *fakeServer) status(key string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	status, _ := s.objects[key].Object["status"].(map[string]any)
	return status
}

// serve has the status be a subresource, or not.
func (s *fakeServer) serve(hasStatus bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hasStatus = hasStatus
}

// breakWith has requests fail; nil: no longer.
func (s *fakeServer) breakWith(fail func(verb string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

// cut ends all watches.
func (s *fakeServer) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watchers {
		close(w.looks)
	}
	s.watchers = nil
}

// log returns the patches so far, and forgets them.
func (s *fakeServer) log() []fakePatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.patches
	s.patches = nil
	return all
}
