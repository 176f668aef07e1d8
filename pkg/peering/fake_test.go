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

// fakeServer stores peering objects in memory for tests in virtual time. Tests with a real API server cover the same
// behavior.
type fakeServer struct {
	mu                    sync.Mutex
	kinds                 map[string]bool // served kinds, as group/plural
	objects               map[string]*unstructured.Unstructured
	version               int
	watchers              []*fakeWatcher
	unresponsive          bool // whether the server does not respond to patches and discovery
	patches               []fakePatch
	discoveryRequests     int                      // number of discovery requests
	dropsUnknownFields    bool                     // whether the server removes unknown fields from a status
	hasStatus             bool                     // whether the status is a subresource
	reportsOldSubresource bool                     // whether discovery reports the opposite of hasStatus
	discoveryDelay        map[string]time.Duration // delay of discovery, by group
	beforePatch           func(body string)        // function called with the lock before each patch
	fail                  func(verb string) error  // error of the verb kind, list, watch or patch
}

type fakePatch struct {
	at        time.Time
	key, body string
	code      int
}

type fakeWatcher struct {
	key    string
	events chan observedObject
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

// awaitResponse blocks if the server is unresponsive.
func (s *fakeServer) awaitResponse(ctx context.Context) error {
	s.mu.Lock()
	mute := s.unresponsive
	s.mu.Unlock()
	if mute {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (s *fakeServer) stopResponding() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unresponsive = true
}

func (s *fakeServer) kind(ctx context.Context, group string, namespaced bool) (*kind, error) {
	if err := s.awaitResponse(ctx); err != nil {
		return nil, err
	}
	wait(ctx, s.discoveryDelay[group])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.discoveryRequests++
	if err := s.failing("kind"); err != nil {
		return nil, err
	}
	resource := plural(namespaced)
	if !s.kinds[group+"/"+resource] {
		return nil, nil
	}
	return &kind{
		resource: schema.GroupVersionResource{Group: group, Version: v1.Version, Resource: resource}, name: "Peering", namespaced: namespaced,
		hasStatus: s.hasStatus != s.reportsOldSubresource,
	}, nil
}

func keyOf(k kind, namespace, name string) string {
	return k.resource.Group + "/" + k.resource.Resource + "/" + namespace + "/" + name
}

func (s *fakeServer) watch(ctx context.Context, k kind, namespace, name string, handle func(observedObject)) error {
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
	w := &fakeWatcher{key: key, events: make(chan observedObject, 10000)}
	w.events <- observedObject{object: s.objects[key].DeepCopy()}
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
		case l, open := <-w.events:
			if !open {
				return nil
			}
			handle(l)
		}
	}
}

func (s *fakeServer) patch(ctx context.Context, k kind, namespace, name string, body []byte) (*unstructured.Unstructured, error) {
	return s.patchAs(ctx, k, keyOf(k, namespace, name), body)
}

// patchKey patches an object as a client that has discovered whether the kind has a status subresource.
func (s *fakeServer) patchKey(ctx context.Context, key string, body []byte) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	k := kind{hasStatus: s.hasStatus}
	s.mu.Unlock()
	return s.patchAs(ctx, k, key, body)
}

func (s *fakeServer) patchAs(ctx context.Context, k kind, key string, body []byte) (result *unstructured.Unstructured, err error) {
	if err := s.awaitResponse(ctx); err != nil {
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
	if s.beforePatch != nil {
		s.beforePatch(string(body))
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
		return nil, apierrors.NewConflict(resource, key, fmt.Errorf("the current version is %s", object.GetResourceVersion()))
	}
	patched := object.DeepCopy()
	status, _ := patched.Object["status"].(map[string]any)
	if status == nil {
		status = map[string]any{}
		patched.Object["status"] = status
	}
	for identity, value := range change.Status {
		if s.dropsUnknownFields || s.hasStatus && !k.hasStatus {
			continue
		}
		if status[identity] = value; value == nil {
			delete(status, identity)
		}
	}
	s.store(key, patched)
	return patched.DeepCopy(), nil
}

// store stores the object and sends an event to the watchers. The caller must hold the lock.
func (s *fakeServer) store(key string, object *unstructured.Unstructured) {
	s.version++
	object.SetResourceVersion(strconv.Itoa(s.version))
	s.objects[key] = object
	s.publish(key, observedObject{object: object.DeepCopy()})
}

func (s *fakeServer) publish(key string, l observedObject) {
	for _, w := range s.watchers {
		if w.key == key {
			w.events <- l
		}
	}
}

// create creates an object with a status.
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
	s.publish(key, observedObject{deletedUID: object.GetUID()})
}

// putRecord writes the record of a peer. A nil record removes it.
func (s *fakeServer) putRecord(key, identity string, record any) {
	body, err := json.Marshal(map[string]any{"status": map[string]any{identity: record}})
	if err != nil {
		panic(err)
	}
	if _, err := s.patchKey(context.Background(), key, body); err != nil {
		panic(err)
	}
}

// putRecordLocked writes a record. The caller must hold the lock.
func (s *fakeServer) putRecordLocked(key, identity string, record map[string]any) {
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

// setStatusSubresource enables or disables the status subresource.
func (s *fakeServer) setStatusSubresource(hasStatus bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hasStatus = hasStatus
}

// failWith makes requests fail. A nil function disables the failures.
func (s *fakeServer) failWith(fail func(verb string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

// endWatches ends all watches.
func (s *fakeServer) endWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watchers {
		close(w.events)
	}
	s.watchers = nil
}

// takePatches returns and clears the recorded patches.
func (s *fakeServer) takePatches() []fakePatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.patches
	s.patches = nil
	return all
}
