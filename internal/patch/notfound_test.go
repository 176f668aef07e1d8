package patch_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// Only an answer that names an object says that the object does not exist.
func TestIsNotFound(t *testing.T) {
	widgets := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound}
	withDetails := status
	withDetails.Details = &metav1.StatusDetails{}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"an object":                  {fmt.Errorf("reading: %w", apierrors.NewNotFound(widgets, "a")), true},
		"an unknown group":           {apierrors.NewGenericServerResponse(http.StatusNotFound, "get", widgets, "a", "404 page not found", 0, true), false},
		"an unknown path of a group": {&apierrors.StatusError{ErrStatus: withDetails}, false},
		"no details":                 {&apierrors.StatusError{ErrStatus: status}, false},
		"another error":              {errors.New("a"), false},
	} {
		if got := patch.IsNotFound(test.err); got != test.want {
			t.Errorf("%s: IsNotFound(%v) = %t, want %t", name, test.err, got, test.want)
		}
	}
}
