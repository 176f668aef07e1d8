package patch

import (
	"context"
	"encoding/json"
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

	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// maxConflicts is how often one write is made again because others keep writing.
const maxConflicts = 10

// A Change is all that is to be written of one object at once.
type Change struct {
	// Before is the object as it was when the change was made, and Content its JSON form.
	Before  client.Object
	Content map[string]any
	// Ours is what the framework changes: fields that nobody else writes. It cannot conflict.
	Ours Document
	// Theirs is what handlers have changed. Where it replaces lists, it is sent only if nobody
	// else has touched those.
	Theirs Document
	// Acquire and Release put our finalizer on the object, or take it off.
	Acquire, Release string

	// Raw says that Theirs has fields that the Go type of the kind may lack. The answers are then read without that type, so
	// that Dropped sees these fields.
	Raw bool

	// Allow is asked before each request; an error ends the write. nil: all requests are allowed.
	Allow func() error

	// Versions are those that the object got by the requests that were made for the change.
	Versions []string

	// Recovered: the change was written by an earlier request whose answer was lost, and the result is a live read. Other
	// clients may have changed the object in between.
	Recovered bool

	// StatusLast has the status written after the rest of the object.
	StatusLast bool

	// first is the answer to the first of two requests: a change that is written again, after the second one has failed, continues
	// from there.
	first client.Object
	// unknown has the subresources, "" for the object itself, to which a request was sent whose outcome is unknown.
	unknown []string
	// answers are those to the requests with changes of handlers.
	answers []answer
}

// Continue takes over how far an earlier form of the same change has come.
func (c *Change) Continue(earlier *Change) {
	c.first, c.unknown, c.answers, c.StatusLast = earlier.first, earlier.unknown, earlier.answers, earlier.StatusLast
}

// Partly returns the object as it is since the first of two requests of a rejected change was accepted; nil if none was.
func (c *Change) Partly() client.Object { return c.first }

// A Writer sends changes of the objects of one kind.
type Writer struct {
	Client client.Client
	// Live reads from the API server, not from the cache.
	Live client.Reader
	// New returns an empty object of the kind.
	New func() client.Object
	GVK schema.GroupVersionKind
	// HasStatus: the kind has the status subresource.
	HasStatus bool
	// OnConflict is called for every conflict.
	OnConflict func()
}

var (
	// ErrGone says that the object does not exist any more, or is another one by now.
	ErrGone = errors.New("the object is gone")
)

// A ContestedError says that somebody else has changed a list which a handler has changed too.
// Nothing but the status may have been written.
type ContestedError struct {
	Path    string // of the list
	Version string // of the object in which it was seen
}

func (e *ContestedError) Error() string {
	return e.Path + " was changed by somebody else at the same time"
}

// A ConcurrentChangeError says that another client has changed fields of a change after a request with an unknown outcome. Which
// of the two came last is not known, so that sending these fields again could overwrite the other client's change.
// The change can be written without them.
type ConcurrentChangeError struct {
	Fields Document // the part of Change.Theirs that another client has changed
}

func (e *ConcurrentChangeError) Error() string {
	return "after a write with an unknown outcome, another client has changed the same fields"
}

// A RejectedError says that the API server does not accept the content of a change, however often it is sent.
type RejectedError struct{ Err error }

func (e *RejectedError) Error() string { return "the API server rejects the change: " + e.Err.Error() }
func (e *RejectedError) Unwrap() error { return e.Err }

// Write sends a change in as few requests as possible, and returns the object as the server has it
// then; nil if nothing was to be sent.
//
// The status has a request of its own if the kind has the status subresource. It goes first, unless [Change.StatusLast] is set: if the
// process ends between the two requests, a handler is called once more, and its result is not lost.
func (w *Writer) Write(ctx context.Context, change *Change) (client.Object, error) {
	doc, guarded := Merged(change.Theirs, change.Ours), change.Theirs.lists(change.Content)
	if !w.HasStatus {
		return w.sendObject(ctx, change, doc, guarded)
	}
	rest, status := doc.splitStatus()
	restGuarded, statusGuarded := splitStatusPaths(guarded)
	sendRest := func() (client.Object, error) { return w.sendObject(ctx, change, rest, restGuarded) }
	sendStatus := func() (client.Object, error) { return w.sendStatus(ctx, change, status, statusGuarded) }
	first, second, isWhole := sendStatus, sendRest, len(status) == 0
	if change.StatusLast {
		first, second, isWhole = sendRest, sendStatus, len(rest) == 0 && change.Acquire == "" && change.Release == ""
	}
	if change.first == nil && !isWhole {
		written, err := first()
		if err != nil {
			return nil, err
		}
		change.first = written
	}
	return second()
}

// sendObject sends the part of a change that does not go to the status subresource.
func (w *Writer) sendObject(ctx context.Context, change *Change, doc Document, guarded [][]string) (client.Object, error) {
	if len(doc) == 0 && change.Acquire == "" && change.Release == "" {
		return change.first, nil
	}
	fit, from, err := change.next(doc, guarded)
	if err != nil {
		return nil, err
	}
	r := request{
		doc: fit, wanted: doc, guarded: guarded, version: from.GetResourceVersion(),
		acquire: change.Acquire, release: change.Release, finalizers: from.GetFinalizers(),
	}
	meta, _ := fit["metadata"].(map[string]any)
	if theirs, ok := meta["finalizers"]; ok {
		r.finalizers, r.chosen = stringsOf(theirs), true
	}
	return w.send(ctx, change, r)
}

// sendStatus sends the part of a change that goes to the status subresource. The request names the version always, as the server does not
// look at the uid of a status.
func (w *Writer) sendStatus(ctx context.Context, change *Change, doc Document, guarded [][]string) (client.Object, error) {
	if len(doc) == 0 {
		return change.first, nil
	}
	fit, from, err := change.next(doc, guarded)
	if err != nil {
		return nil, err
	}
	return w.send(ctx, change, request{
		subresource: "status", doc: fit, wanted: doc, guarded: guarded, version: from.GetResourceVersion(), always: true,
	})
}

// next returns a document for the next request, and the state of the object on which the request is based. The answer to the first
// request may show edits of others, which its version would make the second request overwrite.
func (c *Change) next(doc Document, guarded [][]string) (Document, client.Object, error) {
	if c.first == nil {
		return doc, c.Before, nil
	}
	fit, err := fitted(c, doc, guarded, c.first)
	return fit, c.first, err
}

// A request is one patch, made for one version of the object.
type request struct {
	subresource      string
	doc              Document
	wanted           Document   // doc, before it was fitted to what others have made of the object
	guarded          [][]string // lists that must be as they were
	always           bool       // the version is named, lists or not
	version          string
	acquire, release string
	finalizers       []string // of that version ...
	chosen           bool     // ... or as handlers want to have them
}

func (w *Writer) send(ctx context.Context, change *Change, r request) (client.Object, error) {
	var conflict error
	r.always = r.always || slices.Contains(change.unknown, r.subresource)
	for range maxConflicts {
		if change.Allow != nil {
			if err := change.Allow(); err != nil {
				return nil, err
			}
		}
		obj := w.target(change)
		obj.SetNamespace(change.Before.GetNamespace())
		obj.SetName(change.Before.GetName())
		data, err := json.Marshal(r.body(change.Before.GetUID()))
		if err != nil {
			return nil, &RejectedError{fmt.Errorf("it cannot be written as JSON: %w", err)}
		}
		patch := client.RawPatch(types.MergePatchType, data)
		if r.subresource == "" {
			err = w.Client.Patch(ctx, obj, patch)
		} else {
			err = w.Client.SubResource(r.subresource).Patch(ctx, obj, patch)
		}
		switch {
		case err == nil:
			change.Versions = append(change.Versions, obj.GetResourceVersion())
			if len(change.Theirs) > 0 {
				change.answers = append(change.answers, answer{sent: r.doc, object: obj})
			}
			return w.typed(change, obj)
		case apierrors.IsNotFound(err):
			return nil, w.whatIsGone(ctx, change, err)
		case refusesUID(err):
			return nil, ErrGone
		case apierrors.IsConflict(err):
			conflict = err
			done, err := w.rebase(ctx, change, &r)
			if done != nil || err != nil {
				return done, err
			}
		case isRejection(err):
			return nil, &RejectedError{err}
		default:
			if isUnknownOutcome(err) {
				change.unknown = append(slices.Clip(change.unknown), r.subresource)
			}
			return nil, rbac.Explain(err)
		}
	}
	return nil, conflict
}

// target returns the object that an answer is read into.
func (w *Writer) target(change *Change) client.Object {
	if !change.Raw {
		return w.New()
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(w.GVK)
	return obj
}

// typed returns an answer as an object of the kind's Go type.
func (w *Writer) typed(change *Change, obj client.Object) (client.Object, error) {
	if !change.Raw {
		return obj, nil
	}
	content, err := Content(obj)
	if err != nil {
		return nil, err
	}
	out := w.New()
	return out, Revive(content, out)
}

// whatIsGone tells whether the object is not found, or only the subresource.
func (w *Writer) whatIsGone(ctx context.Context, change *Change, notFound error) error {
	live := w.New()
	switch err := w.Live.Get(ctx, client.ObjectKeyFromObject(change.Before), live); {
	case apierrors.IsNotFound(err), err == nil && live.GetUID() != change.Before.GetUID():
		return ErrGone
	case err != nil:
		return rbac.Explain(err)
	default:
		return fmt.Errorf("the object exists, but cannot be written (was its CRD changed? then restart the operator): %w", notFound)
	}
}

// rebase makes the request for the version that the object has now, if it still means the same
// there. If everything is there already (only the reply was lost), the object is returned instead.
func (w *Writer) rebase(ctx context.Context, change *Change, r *request) (done client.Object, err error) {
	if w.OnConflict != nil {
		w.OnConflict()
	}
	live := w.New()
	err = w.Live.Get(ctx, client.ObjectKeyFromObject(change.Before), live)
	if apierrors.IsNotFound(err) || err == nil && live.GetUID() != change.Before.GetUID() {
		return nil, ErrGone
	}
	if err != nil {
		return nil, fmt.Errorf("reading the object after a conflict: %w", rbac.Explain(err))
	}
	content, err := Content(live)
	if err != nil {
		return nil, err
	}
	if slices.Contains(change.unknown, r.subresource) {
		if committed, err := w.wasCommitted(change, r.subresource, content); err != nil {
			return nil, err
		} else if committed {
			change.Recovered = (r.subresource == "status") == change.StatusLast
			return live, change.adopt(live, content, *r)
		}
	}
	if r.doc, err = fitted(change, r.wanted, r.guarded, live); err != nil {
		return nil, err
	}
	r.version = live.GetResourceVersion()
	if !r.chosen {
		r.finalizers = live.GetFinalizers()
	}
	if len(r.body(live.GetUID()).Missing(content)) == 0 {
		return live, change.adopt(live, content, *r)
	}
	return nil, nil
}

// adopt records the version of an object that was read instead of a lost answer, if nothing but the request has changed the object.
func (c *Change) adopt(live client.Object, content map[string]any, r request) error {
	from, before := c.Before, c.Content
	if c.first != nil {
		var err error
		from = c.first
		if before, err = Content(from); err != nil {
			return err
		}
	}
	others := Between(r.body(live.GetUID()).Apply(before), content).Essential()
	if len(others) == 0 && live.GetDeletionTimestamp().Equal(from.GetDeletionTimestamp()) {
		c.Versions = append(c.Versions, live.GetResourceVersion())
	}
	return nil
}

// wasCommitted decides, by the object as it is now, what has become of a request with an unknown outcome. If the framework's part
// is there, it was committed: nobody else writes that. If it was not, or there is no such part, the handlers' part is
// sent again, unless another client has changed it.
func (w *Writer) wasCommitted(change *Change, subresource string, content map[string]any) (bool, error) {
	if ours := w.partFor(subresource, change.Ours); len(ours) > 0 && len(ours.Missing(content)) == 0 {
		return true, nil
	}
	if fields := w.partFor(subresource, change.Theirs).changedByOthers(change.Content, content); len(fields) > 0 {
		return false, &ConcurrentChangeError{Fields: fields}
	}
	return false, nil
}

// partFor returns the part of a patch that goes to a subresource, or with "" to the object itself.
func (w *Writer) partFor(subresource string, doc Document) Document {
	if !w.HasStatus {
		return doc
	}
	rest, status := doc.splitStatus()
	if subresource == "status" {
		return status
	}
	return rest
}

// fitted checks that the lists which the patch replaces are in the object as they were when the
// change was made, or as the change wants them: handlers may have written them with their client. Lists of
// conditions are fitted to what others have made of theirs.
func fitted(change *Change, doc Document, guarded [][]string, obj client.Object) (Document, error) {
	if len(guarded) == 0 {
		return doc, nil
	}
	content, err := Content(obj)
	if err != nil {
		return nil, err
	}
	for _, path := range guarded {
		was, _ := diff.Lookup(change.Content, path...)
		is, _ := diff.Lookup(content, path...)
		wanted, _ := diff.Lookup(map[string]any(doc), path...)
		if diff.Equal(was, is) || diff.Equal(wanted, is) {
			continue
		}
		if !areConditions(path[len(path)-1], was, is, wanted) || wanted == nil {
			return nil, &ContestedError{Path: strings.Join(path, "."), Version: obj.GetResourceVersion()}
		}
		before, _ := was.([]any)
		now, _ := is.([]any)
		doc = doc.with(path, mergedConditions(before, wanted.([]any), now))
	}
	return doc, nil
}

// body is the patch with its guards: the uid always, the version where others could lose something.
func (r request) body(uid types.UID) Document {
	meta := map[string]any{"uid": string(uid)}
	if r.always || len(r.guarded) > 0 || r.acquire != "" || r.release != "" {
		meta["resourceVersion"] = r.version
	}
	if r.acquire != "" || r.release != "" {
		finalizers := slices.DeleteFunc(slices.Clone(r.finalizers), func(f string) bool {
			return f == r.release || f == r.acquire
		})
		if r.acquire != "" {
			finalizers = append(finalizers, r.acquire)
		}
		list := make([]any, len(finalizers))
		for i, finalizer := range finalizers {
			list[i] = finalizer
		}
		meta["finalizers"] = list
	}
	return Merged(r.doc, Document{"metadata": meta})
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

// refusesUID recognises the answer to a patch that was meant for a former object of the same name.
func refusesUID(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool {
		return cause.Field == "metadata.uid"
	}) || apierrors.IsConflict(err) && strings.Contains(err.Error(), "UID in precondition")
}

// isRejection tells the answers that come again, however often one asks, from passing troubles.
func isRejection(err error) bool {
	if apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) || apierrors.IsUnauthorized(err) {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot patch resource") {
		return false // a right is missing, and may be granted; webhooks have other words
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError || isTooLarge(status.Status())
}

// isUnknownOutcome reports whether a request that has failed may have been carried out all the same: there was no answer, or
// the server does not know either.
func isUnknownOutcome(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError
}

// isTooLarge recognizes the answers to an object that is larger than etcd takes. The API server passes on the errors of
// etcd and of its connection to etcd with code 500, which otherwise stands for passing troubles.
func isTooLarge(status metav1.Status) bool {
	return strings.Contains(status.Message, "etcdserver: request is too large") ||
		strings.Contains(status.Message, "trying to send message larger than max")
}
