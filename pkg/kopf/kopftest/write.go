package kopftest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Write is a request that may change an object.
type Write struct {
	// Verb is create, update, patch, apply, delete or deletecollection.
	Verb string
	// Resource is the plural name, such as "deployments". Subresource is empty or a name such as "status".
	Resource, Subresource string
	Namespace, Name       string
	// Body is the request body in its JSON form: an object, a patch, or options. PatchType is set for patches.
	Body      any
	PatchType types.PatchType
	// DryRun reports whether the request was a dry run. For example, package children sends dry runs to read children without a cache.
	DryRun bool
	// Code is the HTTP status of the response; 0 if there was none.
	Code int
}

// String returns a short form: "patch databases/orders status".
func (w Write) String() string {
	text := w.Verb + " " + w.Resource
	if w.Name != "" {
		text += "/" + w.Name
	}
	if w.Subresource != "" {
		text += " " + w.Subresource
	}
	if w.DryRun {
		text += ", dry run"
	}
	if w.Code >= http.StatusBadRequest || w.Code == 0 {
		text += fmt.Sprintf(" (%d)", w.Code)
	}
	return text
}

// A request contains the parts of an HTTP request to the Kubernetes API.
type request struct {
	verb, group, resource, subresource, namespace, name string
	dryRun                                              bool
}

// parse reads /api/v1/... and /apis/<group>/<version>/..., then [namespaces/<namespace>/]<plural>[/<name>[/<subresource>]].
func parse(r *http.Request) (out request) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(path) > 2 && path[0] == "api":
		path = path[2:]
	case len(path) > 3 && path[0] == "apis":
		out.group, path = path[1], path[3:]
	default:
		return out
	}
	if len(path) > 2 && path[0] == "namespaces" && path[2] != "status" && path[2] != "finalize" {
		out.namespace, path = path[1], path[2:]
	}
	out.resource = path[0]
	if len(path) > 1 {
		out.name = path[1]
	}
	if len(path) > 2 {
		out.subresource = strings.Join(path[2:], "/")
	}
	out.verb, out.dryRun = verbOf(r, out.name), r.URL.Query().Get("dryRun") != ""
	return out
}

func verbOf(r *http.Request, name string) string {
	switch r.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch") {
			return "apply"
		}
		return "patch"
	case http.MethodDelete:
		if name == "" {
			return "deletecollection"
		}
		return "delete"
	default:
		switch {
		case r.URL.Query().Get("watch") != "":
			return "watch"
		case name == "":
			return "list"
		}
		return "get"
	}
}

// writes reports whether a request may change an object. Permission reviews have the verb create, but the API server doesn't store them.
func (r request) writes() bool {
	if r.group == authorizationv1.GroupName {
		return false
	}
	switch r.verb {
	case "", "get", "list", "watch":
		return false
	}
	return true
}

// isEvent reports whether the request is for Kubernetes Events.
func (r request) isEvent() bool {
	return r.resource == "events" && (r.group == "" || r.group == "events.k8s.io")
}

// isEventOrLease reports whether the request is for Events or Leases, which aren't part of the state under test.
func (r request) isEventOrLease() bool {
	return r.isEvent() || r.resource == "leases" && r.group == "coordination.k8s.io"
}

func (r request) write(contentType string, body []byte) Write {
	w := Write{Verb: r.verb, Resource: r.resource, Subresource: r.subresource, Namespace: r.namespace, Name: r.name, DryRun: r.dryRun}
	if r.verb == "patch" || r.verb == "apply" {
		mediaType, _, _ := strings.Cut(contentType, ";") // without its parameters
		w.PatchType = types.PatchType(strings.TrimSpace(mediaType))
	}
	var value any
	if json.Unmarshal(body, &value) == nil {
		w.Body = value
	}
	if options, ok := value.(map[string]any); ok && strings.HasPrefix(r.verb, "delete") {
		w.DryRun = w.DryRun || options["dryRun"] != nil
	}
	if content, ok := value.(map[string]any); ok && w.Name == "" {
		if meta, ok := content["metadata"].(map[string]any); ok {
			w.Name, _ = meta["name"].(string)
		}
	}
	return w
}

// event returns the Event in the body of a write.
func (w Write) event() Event {
	content, _ := w.Body.(map[string]any)
	text := func(keys ...string) string {
		for _, key := range keys {
			if value, ok := content[key].(string); ok && value != "" {
				return value
			}
		}
		return ""
	}
	return Event{Type: text("type"), Reason: text("reason"), Action: text("action"), Note: text("note", "message")}
}
