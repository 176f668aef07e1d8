package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A reply is either a JSON value or a stream.
type reply struct {
	code   int
	value  any
	stream io.ReadCloser
}

func (a reply) response(r *http.Request) *http.Response {
	body, length := a.stream, int64(-1)
	if body == nil {
		text, err := json.Marshal(a.value)
		if err != nil {
			panic("apiserver: encode the reply: " + err.Error())
		}
		body, length = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	}
	return &http.Response{
		Status: strconv.Itoa(a.code) + " " + http.StatusText(a.code), StatusCode: a.code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   body, ContentLength: length, Request: r,
	}
}

// FailureStatus returns the Status with which a server rejects a request.
func FailureStatus(code int, reason metav1.StatusReason, message string) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	}
}

func failure(code int, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: FailureStatus(code, reason, message)}
}

// errNoPath has no details. A real server answers with plain text instead of a Status if it doesn't know the group.
var errNoPath = failure(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")

// errorResponse returns the reply for an error: the Status of an API error, or a Status with code 500 for any other error.
func errorResponse(err error) reply {
	status := FailureStatus(http.StatusInternalServerError, metav1.StatusReasonUnknown, err.Error())
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		status = known.Status()
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	}
	return reply{code: int(status.Code), value: status}
}
