package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"runtime/debug"
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
)

// An endpoint is a hook that is served: it answers reviews.
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

// Handle answers one review. It is the flow of this package in one place.
func (e *endpoint) Handle(ctx context.Context, review admission.Request) admission.Response {
	req := &review.AdmissionRequest
	exchange := exchangeOf(ctx)
	logger := exchange.logger(&review, e.id)
	if problem := e.unfit(req); problem != nil {
		logger.Info("Request refused: it is not for this handler", "error", problem.Message)
		return refused(*problem)
	}
	exchange.answered = true
	if !e.concerns(req) {
		return allowed()
	}
	object, old, err := e.decode(req)
	if err != nil {
		logger.Info("Request denied: its object cannot be decoded", "error", err.Error())
		return refused(metav1.Status{Code: http.StatusBadRequest, Reason: metav1.StatusReasonBadRequest, Message: err.Error()})
	}
	if !e.labels.Matches(labels.Set(object.GetLabels())) {
		return allowed()
	}

	ctx, cancel := context.WithTimeout(log.IntoContext(ctx, logger), e.timeout)
	defer cancel()
	call := newCall(req, e.client, exchange.request)
	before := object.DeepCopyObject()
	var patches []jsonpatch.Operation
	err = guarded(func() error {
		after, err := e.handle(ctx, object, old, call)
		if err == nil {
			patches, err = e.patch(ctx, call, before, after)
		}
		return err
	})
	if err != nil {
		return refused(e.verdict(ctx, err, req)).WithWarnings(call.warnings...)
	}
	response := allowed()
	response.Warnings, response.Patches = call.warnings, patches
	return response
}

// unfit tells why a review has not come where it belongs, or says too little.
func (e *endpoint) unfit(req *admissionv1.AdmissionRequest) *metav1.Status {
	switch user := &req.UserInfo; {
	case req.UID == "":
		return missing("uid")
	case user.Username == "" && user.UID == "" && len(user.Groups) == 0:
		return missing("userInfo")
	case len(req.Object.Raw) == 0 && len(req.OldObject.Raw) == 0:
		return missing("object and oldObject")
	}
	is := schema.GroupVersionKind(req.Kind)
	if is == e.gvk || req.SubResource != "" && !e.typed() {
		return nil
	}
	return &metav1.Status{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: fmt.Sprintf(
		"unknown resource: the handler is for %s, and this is %s", e.gvk, is)}
}

func missing(what string) *metav1.Status {
	return &metav1.Status{
		Code: http.StatusBadRequest, Reason: metav1.StatusReasonBadRequest, Message: "missing data: the review has no " + what,
	}
}

// concerns reports whether a request is what the handler was declared for. That the operation is one of the
// handler's is left to the API server, except where nobody has asked for deletions.
func (e *endpoint) concerns(req *admissionv1.AdmissionRequest) bool {
	if e.kind == mutating && !e.settings.operationsSet && req.Operation == admissionv1.Delete {
		return false
	}
	return e.settings.subresource == "*" || e.settings.subresource == req.SubResource
}

// decode returns the object as it will be, and as it was.
func (e *endpoint) decode(req *admissionv1.AdmissionRequest) (object, old client.Object, err error) {
	into := func(raw runtime.RawExtension) (client.Object, error) {
		obj := e.empty()
		if err := e.decoder.DecodeRaw(raw, obj); err != nil {
			return nil, fmt.Errorf("the object is no %s: %w", e.gvk.Kind, err)
		}
		return obj, nil
	}
	if len(req.OldObject.Raw) > 0 {
		if old, err = into(req.OldObject); err != nil && len(req.Object.Raw) == 0 {
			return nil, nil, err
		} else if err != nil {
			return nil, nil, fmt.Errorf("as it is stored, %w", err)
		}
	}
	if len(req.Object.Raw) == 0 {
		object = old.DeepCopyObject().(client.Object)
		return object, old, nil
	}
	object, err = into(req.Object)
	return object, old, err
}

// guarded calls a function of which a panic is an error, and nothing but an error: the handler, and what is done to an object as
// it has left it, methods of its own type among it.
func guarded(fn func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			admissionmetrics.WebhookPanics.WithLabelValues().Inc()
			err = &panicked{value: value, stack: debug.Stack()}
		}
	}()
	return fn()
}

type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// verdict is what the client is told of an error, and the log, too.
func (e *endpoint) verdict(ctx context.Context, err error, req *admissionv1.AdmissionRequest) metav1.Status {
	logger := log.FromContext(ctx)
	if status, known := statusOf(err, e.gvk.GroupKind(), req.Name); known {
		logger.Info("Request denied", "code", status.Code, "error", err.Error())
		return status
	}
	if p, ok := errors.AsType[*panicked](err); ok {
		logger.Error(err, "Request denied: the handler has panicked", "stack", string(p.stack))
	} else {
		logger.Error(err, "Request denied: the handler has failed")
	}
	return metav1.Status{
		Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
		Message: fmt.Sprintf("the handler %q has failed; the log of its operator tells more, by the requestID %s", e.id, req.UID),
	}
}

// patch is what the handler has changed in the object, if it may.
func (e *endpoint) patch(ctx context.Context, call *Call, before runtime.Object, after client.Object) ([]jsonpatch.Operation, error) {
	if v := reflect.ValueOf(after); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("the handler has set Object to nil: leave it, or change it")
	}
	if unchanged(before, after) {
		return nil, nil
	}
	drop := func(why string) ([]jsonpatch.Operation, error) {
		log.FromContext(ctx).Info("Warning: what the handler has changed in the object is dropped", "why", why)
		call.Warn(fmt.Sprintf("the handler %q has changed the object in vain: %s", e.id, why))
		return nil, nil
	}
	if e.kind == validating {
		return drop("validating handlers cannot")
	}
	if len(call.Review.Object.Raw) == 0 {
		return drop("it is being deleted")
	}
	was, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	is, err := json.Marshal(after)
	if err != nil {
		return nil, fmt.Errorf("what the handler has made of the object has no JSON form: %w", err)
	}
	return patchOf(call.Review.Object.Raw, was, is)
}

func allowed() admission.Response {
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: true}}
}

func refused(status metav1.Status) admission.Response {
	if status.Status == "" {
		status.Status = metav1.StatusFailure
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status}}
}
