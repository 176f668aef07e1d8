package patch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/jsonform"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// maxConflicts limits how often one request is tried while other clients keep writing the object.
const maxConflicts = 10

// Change is a set of changes to one object that are written together.
type Change struct {
	// Before is the object that the change was computed for, and Content its JSON form.
	Before  client.Object
	Content map[string]any
	// FrameworkPatch changes fields that only the framework writes, so it never overwrites other clients' values.
	FrameworkPatch MergePatch
	// HandlerPatch contains the handlers' changes. A list that it replaces is only sent if no other client has changed it, except that
	// lists of conditions are merged.
	HandlerPatch MergePatch
	// AddFinalizer and RemoveFinalizer are the finalizers to add and remove, or empty.
	AddFinalizer, RemoveFinalizer string

	// ReadUntyped decodes responses as unstructured objects. DroppedFields needs it if HandlerPatch has fields that the kind's Go type
	// lacks.
	ReadUntyped bool

	// Expected is a typed object with the handlers' changes, and its JSON form. It is optional, and saves converting those fields of a
	// response that are equal to its own.
	Expected Converted

	// Allow is called before each request, and stops the write by returning an error. If it is nil, all requests are allowed.
	Allow func() error

	// WrittenVersions are the resource versions after the requests.
	WrittenVersions []string

	// Recovered is true if an earlier request without a response has written the change. The result is then a live read, which may contain
	// concurrent edits.
	Recovered bool

	// Exact means that the change is only valid for the version of Before. If the object has changed since, Write returns the conflict.
	Exact bool

	// StatusLast writes the status after the object's other fields.
	StatusLast bool

	// SeenGeneration is the generation that handlers have received, or 0 if it doesn't matter. If set, the request for the object contains
	// the resource version. RaisedTo is then set if this request alone has raised the generation, which means that the next generation
	// contains no concurrent edit.
	SeenGeneration, RaisedTo int64

	// first is the response to the first of two requests. If the second one fails, the next attempt continues from it.
	first client.Object
	// unknownOutcomes are the subresources for which a request had an unknown outcome; "" is the object itself.
	unknownOutcomes []string
	// responses are the responses to requests with handlers' changes.
	responses []response
	// wasEdited is true if another client had raised the generation before the request for the object.
	wasEdited bool
}

// ResumeFrom copies the state of an earlier attempt to write the same change, so that Write doesn't repeat its first request.
func (c *Change) ResumeFrom(earlier *Change) {
	c.first, c.unknownOutcomes, c.responses, c.StatusLast = earlier.first, earlier.unknownOutcomes, earlier.responses, earlier.StatusLast
	c.wasEdited = earlier.wasEdited
}

// FirstResponse returns the object after the first of a rejected change's two requests, or nil if the API server hasn't accepted any.
func (c *Change) FirstResponse() client.Object { return c.first }

// Writer writes changes of one kind's objects. It is safe for concurrent use.
type Writer struct {
	Client client.Client
	// APIReader reads from the API server instead of the cache.
	APIReader client.Reader
	// NewObject returns an empty object of the kind.
	NewObject func() client.Object
	GVK       schema.GroupVersionKind
	// HasStatus is true if the kind has the status subresource.
	HasStatus bool
	// OnConflict is called for every conflict, for metrics. It is optional.
	OnConflict func()
}

// ErrGone means that the object doesn't exist, or was re-created with a different uid.
var ErrGone = errors.New("the object no longer exists")

// IsNotFound reports whether an error says that an object doesn't exist. The API server also answers with status 404 if it doesn't serve
// the kind's version, for example because it was disabled in the CRD. The objects still exist then, so such an answer, which doesn't name
// an object, doesn't count.
func IsNotFound(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsNotFound(err) || apierrors.IsUnexpectedServerError(err) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name != ""
}

// ListConflictError means that a handler and another client have changed the same list. If the change takes two requests, the first one may
// have been accepted.
type ListConflictError struct {
	Path    string // the dotted path of the list
	Version string // the object's resource version with the other client's change
}

func (e *ListConflictError) Error() string {
	return "another client has changed " + e.Path + " concurrently"
}

// ConcurrentChangeError means that another client has changed the same fields after a request with an unknown outcome. It isn't known which
// write came first, so a retry could overwrite the other client's change. The change can be written without these fields.
type ConcurrentChangeError struct {
	Fields MergePatch // the part of Change.HandlerPatch that another client has changed
}

func (e *ConcurrentChangeError) Error() string {
	return "after a write with an unknown outcome, another client has changed the same fields"
}

// RejectedError means that the API server rejects the change's content, so retrying is pointless.
type RejectedError struct{ Err error }

func (e *RejectedError) Error() string { return "the API server rejects the change: " + e.Err.Error() }
func (e *RejectedError) Unwrap() error { return e.Err }

// Write sends a change in as few requests as possible, and returns the object in the last response, or nil if there was nothing to send.
//
// If the kind has the status subresource, the status is sent in a separate request. It goes first unless [Change.StatusLast] is set. That
// way, if the process exits between the two, the handler runs again and its result isn't lost.
func (w *Writer) Write(ctx context.Context, change *Change) (client.Object, error) {
	doc, guarded := Merge(change.HandlerPatch, change.FrameworkPatch), change.HandlerPatch.listPaths(change.Content)
	if !w.HasStatus {
		return w.sendObject(ctx, change, doc, guarded)
	}
	rest, status := doc.splitStatus()
	restGuarded, statusGuarded := splitStatusPaths(guarded)
	sendRest := func() (client.Object, error) { return w.sendObject(ctx, change, rest, restGuarded) }
	sendStatus := func() (client.Object, error) { return w.sendStatus(ctx, change, status, statusGuarded) }
	first, second, singleRequest := sendStatus, sendRest, len(status) == 0
	if change.StatusLast {
		first, second, singleRequest = sendRest, sendStatus, len(rest) == 0 && change.AddFinalizer == "" && change.RemoveFinalizer == ""
	}
	if change.first == nil && !singleRequest {
		written, err := first()
		if err != nil {
			return nil, err
		}
		change.first = written
	}
	return second()
}

// sendObject sends the part of a change that doesn't belong to the status subresource.
func (w *Writer) sendObject(ctx context.Context, change *Change, doc MergePatch, guarded [][]string) (client.Object, error) {
	if len(doc) == 0 && change.AddFinalizer == "" && change.RemoveFinalizer == "" {
		return change.first, nil
	}
	rebased, from, err := change.nextRequest(doc, guarded)
	if err != nil {
		return nil, err
	}
	change.wasEdited = change.wasEdited || from.GetGeneration() > change.SeenGeneration
	r := request{
		doc: rebased, original: doc, guarded: guarded, alwaysGuarded: change.SeenGeneration != 0 || change.Exact, version: from.GetResourceVersion(),
		addFinalizer: change.AddFinalizer, removeFinalizer: change.RemoveFinalizer, finalizers: from.GetFinalizers(),
	}
	meta, _ := rebased["metadata"].(map[string]any)
	if finalizers, ok := meta["finalizers"]; ok {
		r.finalizers, r.finalizersFromHandlers = stringsOf(finalizers), true
	}
	return w.send(ctx, change, r)
}

// sendStatus sends the part of a change that belongs to the status subresource. The request always contains the resource version, because
// the API server doesn't check the uid there.
func (w *Writer) sendStatus(ctx context.Context, change *Change, doc MergePatch, guarded [][]string) (client.Object, error) {
	if len(doc) == 0 {
		return change.first, nil
	}
	rebased, from, err := change.nextRequest(doc, guarded)
	if err != nil {
		return nil, err
	}
	return w.send(ctx, change, request{
		subresource: "status", doc: rebased, original: doc, guarded: guarded, version: from.GetResourceVersion(), alwaysGuarded: true,
	})
}

// nextRequest returns the patch for the next request, and the object it is based on. A second request uses the resource version from the
// first one's response, which may already contain concurrent edits. They would be overwritten if the patch weren't rebased.
func (c *Change) nextRequest(doc MergePatch, guarded [][]string) (MergePatch, client.Object, error) {
	if c.first == nil {
		return doc, c.Before, nil
	}
	rebased, err := mergeGuardedLists(c, doc, guarded, c.first)
	return rebased, c.first, err
}

// request is one patch for one version of the object.
type request struct {
	subresource string
	doc         MergePatch
	original    MergePatch // doc before any rebase
	guarded     [][]string // lists that no other client may have changed
	// alwaysGuarded adds the resource version even if the request replaces no lists.
	alwaysGuarded                 bool
	version                       string
	addFinalizer, removeFinalizer string
	finalizers                    []string // this version's finalizers, or those that handlers have set
	finalizersFromHandlers        bool
	// exact is this version's content exactly as the API server has it. It is only known for patches that set fields to null, because a Go
	// type can't distinguish null from an absent field.
	exact map[string]any
}

func (w *Writer) send(ctx context.Context, change *Change, r request) (client.Object, error) {
	var conflict error
	r.alwaysGuarded = r.alwaysGuarded || slices.Contains(change.unknownOutcomes, r.subresource)
	if r.original.HasNull() {
		r.alwaysGuarded = true
		if done, err := w.rebase(ctx, change, &r); done != nil || err != nil {
			return done, err
		}
	}
	for range maxConflicts {
		if change.Allow != nil {
			if err := change.Allow(); err != nil {
				return nil, err
			}
		}
		obj := w.newResponseObject(change)
		obj.SetNamespace(change.Before.GetNamespace())
		obj.SetName(change.Before.GetName())
		patch, err := r.encode(change.Before.GetUID())
		if err != nil {
			return nil, &RejectedError{fmt.Errorf("encoding the patch as JSON: %w", err)}
		}
		if r.subresource == "" {
			err = w.Client.Patch(ctx, obj, patch)
		} else {
			err = w.Client.SubResource(r.subresource).Patch(ctx, obj, patch)
		}
		err = guard.ShortenError(err) // the API server quotes values that it rejects
		switch {
		case err == nil:
			change.WrittenVersions = append(change.WrittenVersions, obj.GetResourceVersion())
			change.noteGeneration(obj, r)
			if len(change.HandlerPatch) > 0 {
				change.responses = append(change.responses, response{sent: r.doc, object: obj})
			}
			return w.decodeResponse(change, obj)
		case change.Exact && apierrors.IsConflict(err):
			return nil, err
		case apierrors.IsNotFound(err):
			return nil, w.explainNotFound(ctx, change, err)
		case isUIDMismatch(err):
			return nil, ErrGone
		case apierrors.IsConflict(err):
			conflict = err
			if w.OnConflict != nil {
				w.OnConflict()
			}
			done, err := w.rebase(ctx, change, &r)
			if done != nil || err != nil {
				return done, err
			}
		case isRejection(err):
			return nil, &RejectedError{err}
		default:
			if isUnknownOutcome(err) {
				change.unknownOutcomes = append(slices.Clip(change.unknownOutcomes), r.subresource)
			}
			return nil, rbac.Explain(err)
		}
	}
	return nil, conflict
}

func (r request) encode(uid types.UID) (client.Patch, error) {
	if r.exact == nil {
		data, err := jsonform.Encode(map[string]any(r.body(uid)))
		return client.RawPatch(types.MergePatchType, data), err
	}
	data, err := jsonform.Encode(r.body(uid).jsonPatch(r.exact))
	return client.RawPatch(types.JSONPatchType, data), err
}

// newResponseObject returns an empty object to decode a response into.
func (w *Writer) newResponseObject(change *Change) client.Object {
	if !change.ReadUntyped {
		return w.NewObject()
	}
	return w.newUntyped()
}

func (w *Writer) newUntyped() client.Object {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(w.GVK)
	return obj
}

// decodeResponse converts a response to the kind's Go type.
func (w *Writer) decodeResponse(change *Change, obj client.Object) (client.Object, error) {
	if !change.ReadUntyped {
		return obj, nil
	}
	return w.decode(obj)
}

// decode converts an object to the kind's Go type.
func (w *Writer) decode(obj client.Object) (client.Object, error) {
	content, err := Content(obj)
	if err != nil {
		return nil, err
	}
	out := w.NewObject()
	return out, FromContent(content, out)
}

// explainNotFound reads the object to find out whether it was deleted, or whether the kind or subresource is not served.
func (w *Writer) explainNotFound(ctx context.Context, change *Change, notFound error) error {
	live := w.NewObject()
	switch err := w.APIReader.Get(ctx, client.ObjectKeyFromObject(change.Before), live); {
	case IsNotFound(err), err == nil && live.GetUID() != change.Before.GetUID():
		return ErrGone
	case err != nil:
		return rbac.Explain(err)
	default:
		return fmt.Errorf("the object exists, but the API server cannot write it; if its CRD has changed, restart the operator: %w", notFound)
	}
}

// rebase reads the object and adapts the request to its current version. This is needed after a conflict, or if the request sets a field to
// null. If the object already contains the change, for example because only the response was lost, rebase returns the object.
func (w *Writer) rebase(ctx context.Context, change *Change, r *request) (done client.Object, err error) {
	live := w.NewObject()
	if r.original.HasNull() {
		live = w.newUntyped()
	}
	err = w.APIReader.Get(ctx, client.ObjectKeyFromObject(change.Before), live)
	if IsNotFound(err) || err == nil && live.GetUID() != change.Before.GetUID() {
		return nil, ErrGone
	}
	if err != nil {
		return nil, fmt.Errorf("reading the object before a patch: %w", rbac.Explain(err))
	}
	if r.original.HasNull() {
		if r.exact, err = Content(live); err != nil {
			return nil, err
		}
		if live, err = w.decode(live); err != nil {
			return nil, err
		}
	}
	content, err := Content(live)
	if err != nil {
		return nil, err
	}
	if slices.Contains(change.unknownOutcomes, r.subresource) {
		if committed, err := w.wasCommitted(change, r.subresource, content); err != nil {
			return nil, err
		} else if committed {
			change.Recovered = (r.subresource == "status") == change.StatusLast
			if len(w.partForSubresource(r.subresource, change.HandlerPatch).Unapplied(content)) == 0 {
				change.noteGeneration(live, *r)
			}
			return live, change.recordLiveVersion(live, content, *r)
		}
	}
	if r.doc, err = mergeGuardedLists(change, r.original, r.guarded, live); err != nil {
		return nil, err
	}
	r.version = live.GetResourceVersion()
	if !r.finalizersFromHandlers {
		r.finalizers = live.GetFinalizers()
	}
	stored := content
	if r.exact != nil {
		stored = r.exact
	}
	if len(r.body(live.GetUID()).Unapplied(stored)) == 0 {
		return live, change.recordLiveVersion(live, content, *r)
	}
	change.wasEdited = change.wasEdited || live.GetGeneration() != change.SeenGeneration
	return nil, nil
}

// noteGeneration sets RaisedTo if a request for the object has raised the generation that handlers have seen.
func (c *Change) noteGeneration(written client.Object, r request) {
	if generation := written.GetGeneration(); r.subresource == "" && c.SeenGeneration != 0 && !c.wasEdited && generation == c.SeenGeneration+1 {
		c.RaisedTo = generation
	}
}

// recordLiveVersion adds a live read's version to the written versions, unless another client has changed the object since the request
// without a response.
func (c *Change) recordLiveVersion(live client.Object, content map[string]any, r request) error {
	from, before := c.Before, c.Content
	if c.first != nil {
		var err error
		from = c.first
		if before, err = Content(from); err != nil {
			return err
		}
	}
	foreign := Diff(r.body(live.GetUID()).Apply(before), content).WithoutServerFields()
	if len(foreign) == 0 && live.GetDeletionTimestamp().Equal(from.GetDeletionTimestamp()) {
		c.WrittenVersions = append(c.WrittenVersions, live.GetResourceVersion())
		c.noteGeneration(live, r)
	}
	return nil
}

// wasCommitted reports whether a request with an unknown outcome was committed. In that case, the current content has the framework's part,
// because no other client writes those fields. Otherwise, the writer sends the handlers' part again. wasCommitted fails if another client
// has changed the same fields.
func (w *Writer) wasCommitted(change *Change, subresource string, content map[string]any) (bool, error) {
	if part := w.partForSubresource(subresource, change.FrameworkPatch); len(part) > 0 && len(part.Unapplied(content)) == 0 {
		return true, nil
	}
	if fields := w.partForSubresource(subresource, change.HandlerPatch).changedConcurrently(change.Content, content); len(fields) > 0 {
		return false, &ConcurrentChangeError{Fields: fields}
	}
	return false, nil
}

// partForSubresource returns a patch's part for a subresource; "" is the object itself.
func (w *Writer) partForSubresource(subresource string, doc MergePatch) MergePatch {
	if !w.HasStatus {
		return doc
	}
	rest, status := doc.splitStatus()
	if subresource == "status" {
		return status
	}
	return rest
}

// mergeGuardedLists checks that no other client has changed the lists that the patch replaces. A list may already have the wanted items,
// because a handler may have written it with its own client. Lists of conditions are merged with other clients' changes.
func mergeGuardedLists(change *Change, doc MergePatch, guarded [][]string, obj client.Object) (MergePatch, error) {
	if len(guarded) == 0 {
		return doc, nil
	}
	content, err := Content(obj)
	if err != nil {
		return nil, err
	}
	for _, path := range guarded {
		old, _ := diff.Lookup(change.Content, path...)
		current, _ := diff.Lookup(content, path...)
		wanted, _ := diff.Lookup(map[string]any(doc), path...)
		if diff.Equal(old, current) || diff.Equal(wanted, current) {
			continue
		}
		if !areConditionLists(path[len(path)-1], old, current, wanted) || wanted == nil {
			return nil, &ListConflictError{Path: strings.Join(path, "."), Version: obj.GetResourceVersion()}
		}
		before, _ := old.([]any)
		now, _ := current.([]any)
		doc = Merge(doc, At(path, mergeConditions(before, wanted.([]any), now)))
	}
	return doc, nil
}

// body returns the patch with its preconditions: always the uid, and the resource version where the patch could overwrite other clients'
// changes.
func (r request) body(uid types.UID) MergePatch {
	meta := map[string]any{"uid": string(uid)}
	if r.alwaysGuarded || len(r.guarded) > 0 || r.addFinalizer != "" || r.removeFinalizer != "" {
		meta["resourceVersion"] = r.version
	}
	if r.addFinalizer != "" || r.removeFinalizer != "" {
		finalizers := slices.DeleteFunc(slices.Clone(r.finalizers), func(f string) bool {
			return f == r.removeFinalizer || f == r.addFinalizer
		})
		if r.addFinalizer != "" {
			finalizers = append(finalizers, r.addFinalizer)
		}
		list := make([]any, len(finalizers))
		for i, finalizer := range finalizers {
			list[i] = finalizer
		}
		meta["finalizers"] = list
	}
	return Merge(r.doc, MergePatch{"metadata": meta})
}

func stringsOf(list any) []string {
	var out []string
	values, _ := list.([]any)
	for _, value := range values {
		if s, ok := value.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

func splitStatusPaths(paths [][]string) (rest, status [][]string) {
	for _, path := range paths {
		if path[0] == "status" {
			status = append(status, path)
		} else {
			rest = append(rest, path)
		}
	}
	return rest, status
}

// isUIDMismatch reports whether the API server has rejected a patch because the object was re-created with a different uid.
func isUIDMismatch(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool {
		return cause.Field == "metadata.uid"
	}) || apierrors.IsConflict(err) && strings.Contains(err.Error(), "UID in precondition")
}

// isRejection reports whether retrying the request is pointless.
func isRejection(err error) bool {
	if apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) || apierrors.IsUnauthorized(err) {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot patch resource") {
		return false // an administrator may add the missing RBAC rule later; denials from webhooks have a different text
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError || isTooLarge(status.Status())
}

// isUnknownOutcome reports whether a failed request may have been committed, because there was no response or a server error.
func isUnknownOutcome(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError
}

// isTooLarge reports whether the object exceeds etcd's size limit. The API server returns code 500 for it, which otherwise means a
// temporary error.
func isTooLarge(status metav1.Status) bool {
	return strings.Contains(status.Message, "etcdserver: request is too large") ||
		strings.Contains(status.Message, "trying to send message larger than max")
}
