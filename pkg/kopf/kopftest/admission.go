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

// An Admission is the result of an admission handler.
type Admission[T client.Object] struct {
	// Err is the error that the handler has returned, or nil if it allows the request.
	Err error
	// Object is the object after the call. An API server ignores a validating handler's changes.
	Object T
	// Changes are the differences between the given object and Object.
	Changes diff.Diff
	// Warnings are the warnings for the client that made the request.
	Warnings []string
}

// Admit calls an admission handler once, with copies of the objects. The request creates obj, or updates old to obj if old is not nil.
//
// The functions in change modify the Call before it is made. Admit copies its operation, subresource, user and DryRun to its Review. To
// test the deletion of obj, set Operation to Delete. The Call's client is nil unless a function sets it:
//
//	got := kopftest.Admit(t, sized, db, nil, func(call *webhooks.Call) { call.Client = kopftest.Memory(t).Client })
//	if !apierrors.IsInvalid(got.Err) { ... }
//
// The memos are empty. To fill them, use [AdmitContext].
func Admit[T client.Object](t testing.TB, fn webhooks.Handler[T], obj, old T, change ...func(*webhooks.Call)) *Admission[T] {
	t.Helper()
	return AdmitContext(t.Context(), t, fn, obj, old, change...)
}

// AdmitContext is [Admit] with a context for deadlines, cancellation and memos (see [Context]).
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

// review copies the attributes of a call to its review.
func review(call *webhooks.Call) {
	if r := call.Review; r != nil {
		r.Operation, r.SubResource, r.UserInfo, r.DryRun = call.Operation, call.Subresource, call.User, &call.DryRun
	}
}

// CheckMutation tests that a mutating handler is idempotent, because the API server calls it for each update, and can call it twice in one
// request (reinvocationPolicy). CheckMutation calls the handler for the creation of an object, and then twice more for the result: as a
// repeated call and as an update. It fails the test if one of the later calls changes or denies the object. It returns the object after the
// first call.
func CheckMutation[T client.Object](t testing.TB, fn webhooks.Handler[T], obj T) T {
	t.Helper()
	var none T
	first := Admit(t, fn, obj, none)
	if first.Err != nil {
		t.Fatalf("kopftest: the handler denies the object: %v", first.Err)
	}
	for name, again := range map[string]*Admission[T]{
		"called again in the same request": Admit(t, fn, first.Object, none),
		"called for an update":             Admit(t, fn, first.Object, first.Object),
	} {
		if again.Err != nil {
			t.Errorf("kopftest: %s, the handler denies its own result: %v", name, again.Err)
		} else if !again.Changes.Empty() {
			t.Errorf("kopftest: the mutation is not idempotent: %s, the handler changes its own result: %v", name, again.Changes)
		}
	}
	return first.Object
}

func toJSON(t testing.TB, obj client.Object) []byte {
	t.Helper()
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatalf("kopftest: encode %T: %v", obj, err)
	}
	return text
}
