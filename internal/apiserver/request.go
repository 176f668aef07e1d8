package apiserver

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A request is a parsed request for objects.
type request struct {
	*http.Request
	target
	selection
	query   url.Values
	body    []byte
	media   string // media type of the body
	view    view
	watches bool
	dryRun  bool   // validate the request, but store nothing
	manager string // field manager
	force   bool
	replica *Replica // the replica whose cache answers the request; nil if the store does
	asOf    int64    // version of the state that the replica reads
}

// request parses what all requests for objects have in common.
func (s *Server) request(r *http.Request, t target) (*request, error) {
	q := &request{Request: r, target: t, query: r.URL.Query()}
	var err error
	if q.view, err = parseAccept(r.Header.Get("Accept"), t.Resource); err != nil {
		return nil, err
	}
	if q.selection, err = parseSelection(q.query, t.Resource); err != nil {
		return nil, err
	}
	q.media, _, _ = strings.Cut(r.Header.Get("Content-Type"), ";")
	q.media = strings.TrimSpace(q.media)
	if r.Body != nil {
		if q.body, err = io.ReadAll(r.Body); err != nil {
			return nil, apierrors.NewBadRequest("reading the body: " + err.Error())
		}
	}
	q.watches = slices.Contains([]string{"1", "true"}, q.query.Get("watch"))
	q.force = q.query.Get("force") == "true"
	q.manager = q.query.Get("fieldManager")
	q.dryRun = len(q.query["dryRun"]) > 0
	return q, q.validate()
}

func (q *request) validate() error {
	var errs field.ErrorList
	kind := ""
	dry, manager := q.query["dryRun"], q.query.Get("fieldManager")
	switch q.Method {
	case http.MethodPost:
		kind = "CreateOptions"
		errs = validation.ValidateCreateOptions(&metav1.CreateOptions{DryRun: dry, FieldManager: manager})
	case http.MethodPut:
		kind = "UpdateOptions"
		errs = validation.ValidateUpdateOptions(&metav1.UpdateOptions{DryRun: dry, FieldManager: manager})
	case http.MethodPatch:
		kind = "PatchOptions"
		options := &metav1.PatchOptions{DryRun: dry, FieldManager: manager}
		if q.query.Has("force") {
			options.Force = &q.force
		}
		errs = validation.ValidatePatchOptions(options, types.PatchType(q.media))
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
	}
	return nil
}

// updater returns the field manager for a write other than an apply.
func (q *request) updater() string {
	if q.manager != "" {
		return q.manager
	}
	agent, _, _ := strings.Cut(q.UserAgent(), "/")
	if agent == "" {
		agent = "unknown"
	}
	return agent[:min(len(agent), 128)]
}

func unsupportedMediaType(media string, supported ...string) error {
	return failure(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		fmt.Sprintf("the body of the request was in an unknown format (%s) - accepted media types include: %s", media, strings.Join(supported, ", ")))
}
