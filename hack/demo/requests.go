package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

// A requestTail returns new write requests for databases.
type requestTail struct{ tail *controlplane.AuditTail }

func (t *requestTail) next() ([]string, error) {
	requests, err := t.tail.Next()
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, r := range requests {
		if r.Resource == "databases" {
			lines = append(lines, describe(r))
		}
	}
	return lines, nil
}

// methods maps the verbs of Kubernetes to HTTP methods.
var methods = map[string]string{
	"create": http.MethodPost, "update": http.MethodPut, "patch": http.MethodPatch,
	"delete": http.MethodDelete, "deletecollection": http.MethodDelete,
}

func describe(r controlplane.Request) string {
	who := "you"
	if strings.HasPrefix(r.UserAgent, operatorName+"/") {
		who = "operator"
	}
	what := strings.TrimRight(strings.Join([]string{r.Resource, r.Name, r.Subresource}, "/"), "/")
	var body bytes.Buffer
	if r.Verb != "delete" { // the body contains only empty options
		if err := json.Compact(&body, r.Body); err != nil {
			body.Reset() // the request has no body
		}
	}
	return strings.TrimSpace(fmt.Sprintf("%-8s  %-6s  %-23s  %d  %s", who, methods[r.Verb], what, r.Code, body.String()))
}
