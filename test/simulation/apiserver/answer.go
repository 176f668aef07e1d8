package apiserver

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An answer is a value in JSON, or a stream.
type answer struct {
	code   int
	value  any
	stream io.ReadCloser
}

func (a answer) response(r *http.Request) *http.Response {
	body, length := a.stream, int64(-1)
	if body == nil {
		text, err := json.Marshal(a.value)
		if err != nil {
			panic("apiserver: an answer has no JSON form: " + err.Error())
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

// Failure is the body of an answer that refuses a request, as a real server words it.
func Failure(code int, reason metav1.StatusReason, message string) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	}
}

func failure(code int, reason metav1.StatusReason, message string) answer {
	return answer{code, Failure(code, reason, message), nil}
}

func notFound(what string) answer {
	return failure(http.StatusNotFound, metav1.StatusReasonNotFound, what+" not found")
}

func conflict(message string) answer {
	return failure(http.StatusConflict, metav1.StatusReasonConflict, "Operation cannot be fulfilled: "+message)
}

// immutable refuses a change of a field that never changes.
func immutable(field string) answer {
	status := Failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, field+": Invalid value: field is immutable")
	status.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: field}}}
	return answer{http.StatusUnprocessableEntity, status, nil}
}
