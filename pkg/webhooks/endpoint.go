package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	admissionmetrics "sigs.k8s.io/controller-runtime/pkg/webhook/admission/metrics"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/decoding"
)

// endpoint answers the reviews of one hook.
type endpoint struct {
	Hook
	gvk     schema.GroupVersionKind
	labels  labels.Selector
	timeout time.Duration
	decoder admission.Decoder
	client  client.Client
}

func newEndpoint(h Hook, gvk schema.GroupVersionKind, decoder admission.Decoder, c client.Client) (*endpoint, error) {
	selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: h.settings.labels})
	return &endpoint{
		Hook: h, gvk: gvk, labels: selector, decoder: decoder, client: c,
		timeout: time.Duration(h.timeoutSeconds()) * time.Second,
	}, err
}

// Handle answers one review.
func (e *endpoint) Handle(ctx context.Context, review admission.Request) admission.Response {
	req := &review.AdmissionRequest
	reviewCtx := reviewContextFrom(ctx)
	logger := reviewCtx.logger(&review, e.id)
	if problem := e.findReviewProblem(req); problem != nil {
		logger.Info("Review rejected", "error", problem.Message)
		return denied(*problem)
	}
	reviewCtx.accepted = true
	if !e.matchesReview(req) {
		return allowed()
	}
	object, old, err := e.decode(req)
	if err != nil {
		logger.Info("Request denied because its object cannot be decoded", "error", err.Error())
		return denied(metav1.Status{Code: http.StatusBadRequest, Reason: metav1.StatusReasonBadRequest, Message: err.Error()})
	}
	if !e.labels.Matches(labels.Set(object.GetLabels())) {
		return allowed()
	}

	ctx, cancel := context.WithTimeout(log.IntoContext(ctx, logger), e.timeout)
	defer cancel()
	call := newCall(req, e.client, reviewCtx.request)
	before := object.DeepCopyObject()
	var patches []jsonpatch.Operation
	// The filters and the patch call user code, too: predicates, and methods of the Go type.
	err = callGuarded(func() error {
		if !e.matchesFilters(object, old, call) {
			return nil
		}
		after, err := e.handle(ctx, object, old, call)
		if err == nil {
			patches, err = e.buildPatch(ctx, call, before, after)
		}
		return err
	})
	if err != nil {
		return denied(e.statusFor(ctx, guard.ShortenError(err), req)).WithWarnings(call.warnings...)
	}
	response := allowed()
	response.Warnings, response.Patches = call.warnings, patches
	return response
}

// callGuarded calls a function that runs user code, and counts its panic.
func callGuarded(fn func() error) error {
	err := guard.Call("", fn)
	if _, faulted := errors.AsType[*guard.Error](err); faulted {
		admissionmetrics.WebhookPanics.WithLabelValues().Inc()
	}
	return err
}

// findReviewProblem returns an error status if the review is incomplete or for a different kind, and nil otherwise.
func (e *endpoint) findReviewProblem(req *admissionv1.AdmissionRequest) *metav1.Status {
	switch user := &req.UserInfo; {
	case req.UID == "":
		return missingData("uid")
	case user.Username == "" && user.UID == "" && len(user.Groups) == 0:
		return missingData("userInfo")
	case len(req.Object.Raw) == 0 && len(req.OldObject.Raw) == 0:
		return missingData("object and oldObject")
	}
	is := schema.GroupVersionKind(req.Kind)
	if is == e.gvk || req.SubResource != "" && !e.isTyped() {
		return nil
	}
	return &metav1.Status{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: fmt.Sprintf(
		"unknown resource: the handler is for %s, the review is for %s", e.gvk, is)}
}

func missingData(what string) *metav1.Status {
	return &metav1.Status{
		Code: http.StatusBadRequest, Reason: metav1.StatusReasonBadRequest, Message: "missing data: the review has no " + what,
	}
}

// matchesReview reports whether the subresource of the review matches. The API server evaluates the operations, but a mutating handler with
// the default operations must ignore deletions, even if another program added DELETE to the configuration.
func (e *endpoint) matchesReview(req *admissionv1.AdmissionRequest) bool {
	if e.kind == mutating && !e.settings.operationsSet && req.Operation == admissionv1.Delete {
		return false
	}
	return e.settings.subresource == "*" || e.settings.subresource == req.SubResource
}

// decode returns the requested and the stored object.
func (e *endpoint) decode(req *admissionv1.AdmissionRequest) (object, old client.Object, err error) {
	into := func(raw runtime.RawExtension) (client.Object, error) {
		obj := e.newObject()
		if err := callGuarded(func() error { return e.decoder.DecodeRaw(raw, obj) }); err != nil {
			return nil, faultOf(raw.Raw, obj, err)
		}
		return obj, nil
	}
	if len(req.OldObject.Raw) > 0 {
		if old, err = into(req.OldObject); err != nil {
			return nil, nil, fmt.Errorf("the stored object is not a valid %s: %w: to repair or delete it, remove the entry of the handler %q from the webhook configuration "+
				"for this time", e.gvk.Kind, err, e.id)
		}
	}
	if len(req.Object.Raw) == 0 {
		object = old.DeepCopyObject().(client.Object)
		return object, old, nil
	}
	if object, err = into(req.Object); err != nil {
		return nil, nil, fmt.Errorf("the object is not a valid %s: %w", e.gvk.Kind, err)
	}
	return object, old, nil
}

// faultOf explains why an object can't be decoded, with the path of the field if known. Clients must not see the text of a panic.
func faultOf(raw []byte, obj client.Object, err error) error {
	newObject := decoding.Constructor(obj)
	if newObject == nil {
		return guard.ShortenError(err)
	}
	fault := decoding.Check(raw, newObject)
	if fault == nil {
		return guard.ShortenError(err)
	}
	if _, panicked := errors.AsType[*guard.Error](err); panicked {
		fault.Err = errors.New("the Go type of the operator panics for this value")
	}
	return fault
}

// statusFor logs the error of a handler and returns the status for the client.
func (e *endpoint) statusFor(ctx context.Context, err error, req *admissionv1.AdmissionRequest) metav1.Status {
	logger := log.FromContext(ctx)
	if status, known := clientStatus(err, e.gvk.GroupKind(), req.Name); known {
		logger.Info("Request denied", "code", status.Code, "error", err.Error())
		return status
	}
	if trace := guard.Trace(err); trace != "" {
		logger.Error(err, "Request denied because the handler panicked", "stack", trace)
	} else {
		logger.Error(err, "Request denied because the handler failed")
	}
	return metav1.Status{
		Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
		Message: fmt.Sprintf("the handler %q failed: see requestID %s in the log of its operator", e.id, req.UID),
	}
}

// buildPatch returns the JSON patch for a mutating handler's changes. If the changes can't take effect, it discards them and adds a warning
// to the response.
func (e *endpoint) buildPatch(ctx context.Context, call *Call, before runtime.Object, after client.Object) ([]jsonpatch.Operation, error) {
	if v := reflect.ValueOf(after); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("the handler set Object to nil: keep the object or change its fields")
	}
	if isUnchanged(before, after) {
		return nil, nil
	}
	discard := func(reason string) ([]jsonpatch.Operation, error) {
		log.FromContext(ctx).Info("Discarding the changes that the handler made to the object", "reason", reason)
		call.Warn(fmt.Sprintf("the changes of handler %q are discarded: %s", e.id, reason))
		return nil, nil
	}
	if e.kind == validating {
		return discard("validating handlers cannot change objects")
	}
	if len(call.Review.Object.Raw) == 0 {
		return discard("the object is being deleted")
	}
	was, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	is, err := json.Marshal(after)
	if err != nil {
		return nil, fmt.Errorf("encoding the object changed by the handler: %w", err)
	}
	return computePatch(call.Review.Object.Raw, was, is)
}

func allowed() admission.Response {
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: true}}
}

func denied(status metav1.Status) admission.Response {
	if status.Status == "" {
		status.Status = metav1.StatusFailure
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status}}
}
