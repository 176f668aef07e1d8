package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

// newRequests returns the write requests for databases since the last call. Without the demo, it returns none.
func (g *stage) newRequests() ([]string, error) {
	if !g.demo {
		return nil, nil
	}
	requests, err := g.audit.Next()
	var lines []string
	for _, r := range requests {
		if r.Resource == "databases" {
			lines = append(lines, g.describe(r))
		}
	}
	return lines, err
}

// methods maps the verbs of Kubernetes to HTTP methods.
var methods = map[string]string{
	"create": http.MethodPost, "update": http.MethodPut, "patch": http.MethodPatch,
	"delete": http.MethodDelete, "deletecollection": http.MethodDelete,
}

func (g *stage) describe(r controlplane.Request) string {
	who := "you"
	if strings.HasPrefix(r.UserAgent, g.name+"/") {
		who = "operator"
	}
	what := strings.TrimRight(strings.Join([]string{r.Resource, r.Name, r.Subresource}, "/"), "/")
	var body bytes.Buffer
	if r.Verb != "delete" { // the body of a deletion contains only default options
		if err := json.Compact(&body, r.Body); err != nil {
			body.Reset() // the request has no body
		}
	}
	return strings.TrimSpace(fmt.Sprintf("%-8s  %-6s  %-23s  %d  %s", who, methods[r.Verb], what, r.Code, body.String()))
}
