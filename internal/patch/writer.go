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

	"github.com/kopf-runtime/kopf-runtime/internal/errtext"
	"github.com/kopf-runtime/kopf-runtime/internal/jsonform"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// maxConflicts limits the attempts of one request while other clients keep writing the object.
const maxConflicts = 10

// Change is a set of changes to one object that are written together.
type Change struct {
	// Before is the object for which the change was computed, and Content its JSON form.
	Before  client.Object
	Content map[string]any
	// FrameworkPatch changes fields that only the framework writes. It therefore never overwrites values of other clients.
	FrameworkPatch MergePatch
	// HandlerPatch contains the changes of handlers. Lists that it replaces are sent only if no other client has changed them. Lists of
	// conditions are merged.
	HandlerPatch MergePatch
	// AddFinalizer and RemoveFinalizer are the finalizers to add and to remove; empty for no change.
	AddFinalizer, RemoveFinalizer string

	// ReadUntyped decodes responses as unstructured objects. DroppedFields needs this if HandlerPatch has fields that the Go
	// type of the kind lacks.
	ReadUntyped bool

	// Expected is a typed object with the changes of handlers, and its JSON form. It is optional. The fields of responses that equal its fields are not
	// converted again.
	Expected Converted

	// Allow is called before each request. An error stops the write. If Allow is nil, all requests are allowed.
	Allow func() error

	// WrittenVersions are the resource versions that the requests of the change have created.
	WrittenVersions []string

	// Recovered is true if an earlier request without a response has written the change. The result is then a live read, which may
	// contain changes of other clients.
	Recovered bool

	// Exact is true if the change is only for the version of Before. If the object has changed since, Write returns the conflict.
	Exact bool

	// StatusLast writes the status after the other fields of the object.
	StatusLast bool

	// SeenGeneration is the generation that handlers have received; 0 if it does not matter. If it is set, the request for the object contains the resource
	// version, and RaisedTo is set if this request alone has raised the generation. Then the next generation contains no change of another client.
	SeenGeneration, RaisedTo int64

	// first is the response to the first of two requests. If the second request fails, the next attempt to write the
	// change continues from this response.
	first client.Object
	// unknownOutcomes are the subresources with a request whose outcome is unknown; "" is the object itself.
	unknownOutcomes []string
	// responses are the responses to requests with changes of handlers.
	responses []response
	// wasEdited is true if another client has raised the generation before the request for the object.
	wasEdited bool
}

// ResumeFrom copies the state of an earlier attempt to write the same change, so that Write does not repeat its first request.
func (c *Change) ResumeFrom(earlier *Change) {
	c.first, c.unknownOutcomes, c.responses, c.StatusLast = earlier.first, earlier.unknownOutcomes, earlier.responses, earlier.StatusLast
	c.wasEdited = earlier.wasEdited
}

// FirstResponse returns the object after the first of two requests of a rejected change. It returns nil if the API server has not accepted any request.
func (c *Change) FirstResponse() client.Object { return c.first }

// Writer writes changes of the objects of one kind. It is safe for concurrent use.
type Writer struct {
	Client client.Client
	// APIReader reads from the API server, not from the cache.
	APIReader client.Reader
	// NewObject returns an empty object of the kind.
	NewObject func() client.Object
	GVK       schema.GroupVersionKind
	// HasStatus is true if the kind has the status subresource.
	HasStatus bool
	// OnConflict is called for every conflict, for metrics. It is optional.
	OnConflict func()
}

// ErrGone means that the object does not exist, or was re-created with another uid.
var ErrGone = errors.New("the object no longer exists")

// IsNotFound reports whether an error says that an object does not exist. The API server also answers with the status 404 if it does not serve the version of
// the kind, for example because the version was disabled in the CRD. The objects then still exist. Such an answer names no object.
func IsNotFound(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsNotFound(err) || apierrors.IsUnexpectedServerError(err) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name != ""
}

// ListConflictError means that a handler and another client have changed the same list. If the change takes two requests, the API server may have
// accepted the first one.
type ListConflictError struct {
	Path    string // the dotted path of the list
	Version string // the resource version of the object with the change of the other client
}

func (e *ListConflictError) Error() string {
	return "another client has changed " + e.Path + " concurrently"
}

// ConcurrentChangeError means that another client has changed the same fields after a request with an unknown outcome. The order of the two
// writes is unknown, so a repeated request could overwrite the change of the other client. The change can be
// written without these fields.
type ConcurrentChangeError struct {
	Fields MergePatch // the part of Change.HandlerPatch that another client has changed
}

func (e *ConcurrentChangeError) Error() string {
	return "after a write with an unknown outcome, another client has changed the same fields"
}

// RejectedError means that the API server rejects the content of a change. A retry cannot succeed.
type RejectedError struct{ Err error }

func (e *RejectedError) Error() string { return "the API server rejects the change: " + e.Err.Error() }
func (e *RejectedError) Unwrap() error { return e.Err }

// Write sends a change in as few requests as possible, and returns the object of the last response. If there was nothing to send, it returns nil.
//
// If the kind has the status subresource, the status is sent in a separate request. It is sent first, unless [Change.StatusLast] is set.
// If the process ends between the two requests, the handler therefore runs again, and its result is not lost.
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

// sendObject sends the part of a change that does not go to the status subresource.
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

// sendStatus sends the part of a change that goes to the status subresource. The request always contains the resource version, because the API server
// does not check the uid there.
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

// nextRequest returns the patch for the next request, and the object on which it is based. The response to the first request may contain
// changes of other clients. A resource version in the second request is the version of this response. Without a rebase, the request would therefore
// overwrite these changes.
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
	guarded     [][]string // the lists that no other client may have changed
	// alwaysGuarded adds the resource version even to requests without lists.
	alwaysGuarded                 bool
	version                       string
	addFinalizer, removeFinalizer string
	finalizers                    []string // the finalizers of this version, or the finalizers that handlers have set
	finalizersFromHandlers        bool
	// exact is the content of this version as the API server has it. It is known only for patches that set fields to null: a Go type does not distinguish
	// null from an absent field.
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
		err = errtext.Limit(err) // the API server quotes values that it rejects
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

// encode returns the body of the request.
func (r request) encode(uid types.UID) (client.Patch, error) {
	if r.exact == nil {
		data, err := jsonform.Encode(map[string]any(r.body(uid)))
		return client.RawPatch(types.MergePatchType, data), err
	}
	data, err := jsonform.Encode(r.body(uid).jsonPatch(r.exact))
	return client.RawPatch(types.JSONPatchType, data), err
}

// newResponseObject returns an empty object for the response to a request.
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

// decodeResponse converts a response to the Go type of the kind.
func (w *Writer) decodeResponse(change *Change, obj client.Object) (client.Object, error) {
	if !change.ReadUntyped {
		return obj, nil
	}
	return w.decode(obj)
}

// decode converts an object to the Go type of the kind.
func (w *Writer) decode(obj client.Object) (client.Object, error) {
	content, err := Content(obj)
	if err != nil {
		return nil, err
	}
	out := w.NewObject()
	return out, FromContent(content, out)
}

// explainNotFound reads the object to distinguish a deleted object from a kind or subresource that is not served.
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

// rebase reads the object and adapts the request to its current version, after a conflict or because the request sets a field to null. If the object already
// contains the change, for example because only the response was lost, rebase returns the object.
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

// recordLiveVersion adds the version of a live read to the written versions. It does not add the version if another client has changed the object since
// the request without a response.
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

// wasCommitted reports whether a request with an unknown outcome was committed. The current content then has the
// framework's part, because no other client writes these fields. Otherwise the writer sends the handlers' part again.
// wasCommitted returns an error if another client has changed the same fields.
func (w *Writer) wasCommitted(change *Change, subresource string, content map[string]any) (bool, error) {
	if part := w.partForSubresource(subresource, change.FrameworkPatch); len(part) > 0 && len(part.Unapplied(content)) == 0 {
		return true, nil
	}
	if fields := w.partForSubresource(subresource, change.HandlerPatch).changedConcurrently(change.Content, content); len(fields) > 0 {
		return false, &ConcurrentChangeError{Fields: fields}
	}
	return false, nil
}

// partForSubresource returns the part of a patch for a subresource; "" is the object itself.
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

// mergeGuardedLists checks that no other client has changed the lists that the patch replaces. A list may already have the wanted items, because a
// handler has written it with its own client. Lists of conditions are merged with the changes of other clients.
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

// body returns the patch with its preconditions: always the uid, and the resource version where the patch could overwrite changes of
// other clients.
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

// isUIDMismatch reports whether the API server has rejected a patch because the object was re-created with another uid.
func isUIDMismatch(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool {
		return cause.Field == "metadata.uid"
	}) || apierrors.IsConflict(err) && strings.Contains(err.Error(), "UID in precondition")
}

// isRejection reports whether a retry of the request cannot succeed.
func isRejection(err error) bool {
	if apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) || apierrors.IsUnauthorized(err) {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot patch resource") {
		return false // an administrator may add a missing RBAC rule later; denials of webhooks have another text
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError || isTooLarge(status.Status())
}

// isUnknownOutcome reports whether the API server may have committed a failed request: there was no response, or a server
// error.
func isUnknownOutcome(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError
}

// isTooLarge reports whether the object exceeds the size limit of etcd. The API server returns this error with code 500, which
// otherwise means a temporary error.
func isTooLarge(status metav1.Status) bool {
	return strings.Contains(status.Message, "etcdserver: request is too large") ||
		strings.Contains(status.Message, "trying to send message larger than max")
}
