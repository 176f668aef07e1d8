package kopftest

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// An Admission is what an admission handler has said to a request.
type Admission[T client.Object] struct {
	// Err is what it has returned; nil: the request is let through.
	Err error
	// Object is as the handler has left it. Of a validating handler, that is dropped.
	Object T
	// Changes lead from the object as it was given to Object.
	Changes diff.Diff
	// Warnings are those that whoever has made the request is shown.
	Warnings []string
}

// Admit calls an admission handler once, with a request to create the object; with an old one, to update that. To set more of the
// request (the operation, the user, whether it is a dry run), change it by the functions. The object is not changed: the
// handler gets a copy. What the functions set is also in the request's Review. For a deletion, set the Operation; what is deleted is obj.
//
// Client of the request is nil, unless a function sets it:
//
//	got := kopftest.Admit(t, sized, db, nil, func(call *webhooks.Call) { call.Client = kopftest.Memory(t).Client })
//	if !apierrors.IsInvalid(got.Err) { ... }
//
// Memos are empty; see [AdmitContext].
func Admit[T client.Object](t testing.TB, fn webhooks.Handler[T], obj, old T, change ...func(*webhooks.Call)) *Admission[T] {
	t.Helper()
	return AdmitContext(t.Context(), t, fn, obj, old, change...)
}

// AdmitContext is [Admit] with a context: for deadlines, cancellations, and memos (see [Context]).
func AdmitContext[T client.Object](
	ctx context.Context, t testing.TB, fn webhooks.Handler[T], obj, old T, change ...func(*webhooks.Call),
) *Admission[T] {
	t.Helper()
	if objectstate.MemosFromContext(ctx) == nil {
		ctx = objectstate.ContextWithMemos(ctx, &objectstate.Memos{})
	}
	got := &Admission[T]{Object: obj.DeepCopyObject().(T)}
	call := &webhooks.Call{Operation: admissionv1.Create}
	req := &webhooks.Request[T]{Object: got.Object, Call: call}
	if v := reflect.ValueOf(old); v.IsValid() && !v.IsNil() {
		call.Operation = admissionv1.Update
		req.Old = old.DeepCopyObject().(T)
	}
	call.Review = &admissionv1.AdmissionRequest{
		Operation: call.Operation, Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: "test",
		Object: runtime.RawExtension{Raw: toJSON(t, obj)},
	}
	if call.Operation == admissionv1.Update {
		call.Review.OldObject.Raw = toJSON(t, old)
	}
	for _, f := range change {
		f(call)
	}
	if call.Operation == admissionv1.Delete && call.Review != nil {
		call.Review.Object, call.Review.OldObject = runtime.RawExtension{}, runtime.RawExtension{Raw: toJSON(t, obj)}
		req.Old = obj.DeepCopyObject().(T)
	}
	review(call)
	got.Err = fn(ctx, req)
	got.Object, got.Warnings = req.Object, call.Warnings()
	got.Changes = diff.Of(any(toContent(t, obj)), any(toContent(t, got.Object)))
	return got
}

// review puts what is known of a request into the form in which it would have come.
func review(call *webhooks.Call) {
	if r := call.Review; r != nil {
		r.Operation, r.SubResource, r.UserInfo, r.DryRun = call.Operation, call.Subresource, call.User, &call.DryRun
	}
}

// CheckMutation calls a mutating handler for an object, and then for what it has made of that, and fails the test if
// that changes once more: the API server may call it again in one request (its reinvocationPolicy), and calls it with each update. It
// returns the object as it was left first.
func CheckMutation[T client.Object](t testing.TB, fn webhooks.Handler[T], obj T) T {
	t.Helper()
	var none T
	first := Admit(t, fn, obj, none)
	if first.Err != nil {
		t.Fatalf("kopftest: the object is denied: %v", first.Err)
	}
	for name, again := range map[string]*Admission[T]{
		"called again in the same request": Admit(t, fn, first.Object, none),
		"called for an update":             Admit(t, fn, first.Object, first.Object),
	} {
		if again.Err != nil {
			t.Errorf("kopftest: %s, the handler denies what it has made itself: %v", name, again.Err)
		} else if !again.Changes.Empty() {
			t.Errorf("kopftest: the mutation is not idempotent: %s, it changes what it has made itself: %v", name, again.Changes)
		}
	}
	return first.Object
}

func toJSON(t testing.TB, obj client.Object) []byte {
	t.Helper()
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatalf("kopftest: the %T has no JSON form: %v", obj, err)
	}
	return text
}
