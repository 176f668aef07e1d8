package commit_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

var (
	widgetGVK = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	widgets   = schema.GroupResource{Group: "example.com", Resource: "widgets"}

	errLost        = errors.New("connection reset by peer")
	errUnavailable = apierrors.NewTooManyRequests("later", 1)
	errInvalid     = apierrors.NewInvalid(widgetGVK.GroupKind(), "w", nil)
)

// server is an API server with one object. It applies merge patches with the preconditions of the API server. The fake client of controller-runtime
// does not fit: it ignores the uid, changes the resource version of unchanged objects, and answers the removal of the last finalizer with an error.
type server struct {
	client.Client
	t          *testing.T
	content    m // of the object; nil after its deletion
	hasStatus  bool
	version    int
	requests   []request
	reads      int
	failReads  error               // the error of all reads; nil for none
	before     func(request) error // called before each request; an error rejects the request
	after      func(request) error // called after each accepted request; an error replaces the response
	transforms func(content m)     // changes the object of each accepted request, like a webhook
	mapper     *meta.DefaultRESTMapper
}

func newServer(t *testing.T, obj *unstructured.Unstructured) *server {
	s := &server{t: t, hasStatus: true, version: 7, content: runtime.DeepCopyJSON(obj.Object), mapper: meta.NewDefaultRESTMapper(nil)}
	s.mapper.Add(widgetGVK, meta.RESTScopeNamespace)
	return s
}

// request is a patch that the server has received.
type request struct {
	subresource string
	doc         patch.MergePatch // without preconditions; a JSON patch has the same form
	isJSON      bool             // it is a JSON patch
	version     string           // the resource version in the preconditions; empty if there is none
}

// String returns the fields that the request changes: the subresource, the paths of fields, and the names of annotations with + or -.
func (r request) String() string {
	var words, annotations []string
	for _, path := range r.doc.Paths() {
		name, isAnnotation := strings.CutPrefix(path, "metadata.annotations.")
		switch {
		case strings.HasPrefix(path, "status.kopf."): // records
			if !slices.Contains(words, "status.kopf") {
				words = append(words, "status.kopf")
			}
			continue
		case !isAnnotation:
			words = append(words, path)
			continue
		}
		sign := "+"
		if r.doc["metadata"].(m)["annotations"].(m)[name] == nil {
			sign = "-"
		}
		annotations = append(annotations, sign+strings.TrimPrefix(name, prefix))
	}
	words = append(words, annotations...)
	if r.isJSON {
		words = slices.Insert(words, 0, "json:")
	}
	if r.subresource != "" {
		words = slices.Insert(words, 0, "/"+r.subresource)
	}
	return strings.Join(words, " ")
}

// sent returns the requests since the last call.
func (s *server) sent() (out []string) {
	for _, r := range s.requests {
		out = append(out, r.String())
	}
	s.requests = nil
	return out
}

// edit changes the object like another client.
func (s *server) edit(doc patch.MergePatch) {
	s.version++
	s.content = runtime.DeepCopyJSON(doc.Apply(s.content))
	meta := s.content["metadata"].(m)
	meta["resourceVersion"] = strconv.Itoa(s.version)
	if generation, ok := meta["generation"].(int64); ok && doc.ChangesSpec() {
		meta["generation"] = generation + 1
	}
}

// object returns the object without preconditions and versions.
func (s *server) object() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(s.content)}
}

func (s *server) RESTMapper() meta.RESTMapper { return s.mapper }

func (s *server) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.reads++
	if s.failReads != nil {
		return s.failReads
	}
	if s.content == nil {
		return apierrors.NewNotFound(widgets, key.Name)
	}
	into.(*unstructured.Unstructured).Object = runtime.DeepCopyJSON(s.content)
	return nil
}

func (s *server) Patch(_ context.Context, into client.Object, doc client.Patch, _ ...client.PatchOption) error {
	return s.patch("", into, doc)
}

func (s *server) SubResource(name string) client.SubResourceClient {
	return subresource{name: name, server: s}
}

type subresource struct {
	client.SubResourceClient
	name   string
	server *server
}

func (s subresource) Patch(_ context.Context, into client.Object, doc client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.server.patch(s.name, into, doc)
}

func (s *server) patch(subresource string, into client.Object, from client.Patch) error {
	data, err := from.Data(into)
	if err != nil || from.Type() != types.MergePatchType && from.Type() != types.JSONPatchType {
		s.t.Fatalf("the patch of type %q is not readable: %v", from.Type(), err)
	}
	if from.Type() == types.JSONPatchType {
		return s.jsonPatch(subresource, into, data)
	}
	doc := &unstructured.Unstructured{}
	if err := json.Unmarshal(slices.Concat([]byte(`{"kind": "Widget",`), data[1:]), doc); err != nil {
		s.t.Fatal(err)
	}
	delete(doc.Object, "kind")
	r := request{subresource: subresource, doc: doc.Object, version: doc.GetResourceVersion()}
	uid := doc.GetUID()
	unstructured.RemoveNestedField(doc.Object, "metadata", "uid")
	unstructured.RemoveNestedField(doc.Object, "metadata", "resourceVersion")
	if len(doc.Object["metadata"].(m)) == 0 {
		delete(doc.Object, "metadata")
	}
	return s.handle(r, uid, into)
}

// jsonPatch handles a JSON patch whose operations refer to fields of maps. An operation fails if its parent does not exist, and the removal of a field also
// if the field does not exist.
func (s *server) jsonPatch(subresource string, into client.Object, data []byte) error {
	var operations []struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	if err := utiljson.Unmarshal(data, &operations); err != nil {
		s.t.Fatal(err)
	}
	r, uid := request{subresource: subresource, doc: patch.MergePatch{}, isJSON: true}, types.UID("")
	content := s.object().Object
	var failed error
	for _, o := range operations {
		path := strings.Split(strings.TrimPrefix(o.Path, "/"), "/")
		for i := range path {
			path[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(path[i])
		}
		parent, isMap, _ := unstructured.NestedFieldNoCopy(content, path[:len(path)-1]...)
		fields, _ := parent.(m)
		_, had := fields[path[len(path)-1]]
		switch {
		case o.Path == "/metadata/uid":
			uid = types.UID(o.Value.(string))
			continue
		case o.Path == "/metadata/resourceVersion":
			r.version = o.Value.(string)
			continue
		case !isMap && len(path) > 1, o.Op == "remove" && !had:
			failed = errInvalid
		case o.Op == "remove":
			delete(fields, path[len(path)-1])
			r.doc = patch.Merge(r.doc, patch.At(path, nil))
		case o.Op == "add":
			fields[path[len(path)-1]] = o.Value
			r.doc = patch.Merge(r.doc, patch.Diff(map[string]any{}, patch.At(path, o.Value)))
		default:
			s.t.Fatalf("the operation %q is not supported", o.Op)
		}
	}
	if version := s.object().GetResourceVersion(); failed != nil && r.version == version { // otherwise, there is a conflict
		s.requests = append(s.requests, r)
		return failed
	}
	return s.handle(r, uid, into)
}

// handle applies a patch if its preconditions hold.
func (s *server) handle(r request, uid types.UID, into client.Object) error {
	s.requests = append(s.requests, r)
	if s.before != nil {
		if err := s.before(r); err != nil {
			return err
		}
	}
	switch present := s.object(); {
	case s.content == nil:
		return apierrors.NewNotFound(widgets, into.GetName())
	case r.subresource == "" && present.GetUID() != uid:
		return apierrors.NewConflict(widgets, into.GetName(), errors.New("Precondition failed: UID in precondition: 1, UID in object meta: 2"))
	case r.version != "" && present.GetResourceVersion() != r.version:
		return apierrors.NewConflict(widgets, into.GetName(), errors.New("the object has been modified"))
	}
	s.store(r)
	into.(*unstructured.Unstructured).Object = runtime.DeepCopyJSON(s.content)
	if meta := s.content["metadata"].(m); meta["deletionTimestamp"] != nil && meta["finalizers"] == nil {
		s.content = nil
	}
	if s.after != nil {
		return s.after(r)
	}
	return nil
}

// store applies an accepted request.
func (s *server) store(r request) {
	applied := runtime.DeepCopyJSON(r.doc.Apply(s.content))
	if s.hasStatus {
		from, into := s.content, applied
		if r.subresource == "status" {
			from, into = applied, runtime.DeepCopyJSON(s.content)
		}
		if status, ok := from["status"]; ok {
			into["status"] = status
		} else {
			delete(into, "status")
		}
		applied = into
	}
	if s.transforms != nil {
		s.transforms(applied)
	}
	meta := applied["metadata"].(m)
	if finalizers, _ := meta["finalizers"].([]any); len(finalizers) == 0 {
		delete(meta, "finalizers")
	}
	if generation, ok := meta["generation"].(int64); ok && patch.Diff(s.content, applied).ChangesSpec() {
		meta["generation"] = generation + 1
	}
	if len(patch.Diff(s.content, applied)) > 0 && (meta["deletionTimestamp"] == nil || meta["finalizers"] != nil) {
		s.version++
		meta["resourceVersion"] = strconv.Itoa(s.version)
	}
	s.content = applied
}

// containing returns a function that fails requests with a path.
func containing(path string, err error) func(request) error {
	return func(r request) error {
		if slices.Contains(strings.Fields(r.String()), path) {
			return err
		}
		return nil
	}
}

// once returns a function that fails the first request for which fail returns an error.
func once(fail func(request) error) func(request) error {
	failed := false
	return func(r request) error {
		if failed {
			return nil
		}
		err := fail(r)
		failed = err != nil
		return err
	}
}
