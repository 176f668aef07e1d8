package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const requestTotal = "apiserver_request_total"

var writeVerbs = []string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}

// Counts are numbers of requests by verb and code of the response, as in {"PATCH 200": 3}. The
// verbs are the server's: POST, PUT, PATCH, APPLY (a server-side apply, which is not counted as
// PATCH), DELETE and DELETECOLLECTION. Dry runs are apart, as in {"PATCH 200 dry-run": 1}.
type Counts map[string]int

// Writes asks the server how many write requests it has answered so far on a resource, given in
// plural, or on a subresource of it: its apiserver_request_total. Resources of the same name in
// several groups are counted together. As with [AuditTail.Next], a request whose response was
// received is among them unless the response was large.
func (cp *ControlPlane) Writes(ctx context.Context, resource, subresource string) (Counts, error) {
	text, err := cp.get(ctx, "/metrics")
	if err != nil {
		return nil, fmt.Errorf("control plane: counters: %w", err)
	}
	counts, err := parseCounts(text, resource, subresource)
	if err != nil {
		return nil, fmt.Errorf("control plane: /metrics is not understood "+
			"(a new version of kube-apiserver? then adapt internal/controlplane): %w", err)
	}
	return counts, nil
}

func parseCounts(text []byte, resource, subresource string) (Counts, error) {
	// There are tens of thousands of lines, and few are of this family.
	var family bytes.Buffer
	family.WriteString("# TYPE " + requestTotal + " counter\n")
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte(requestTotal+"{")) {
			family.Write(line)
		}
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&family)
	if err != nil {
		return nil, err
	}
	counts := Counts{}
	for _, metric := range families[requestTotal].GetMetric() {
		if label(metric, "resource") != resource || label(metric, "subresource") != subresource {
			continue
		}
		verb := label(metric, "verb")
		if !slices.Contains(writeVerbs, verb) {
			continue
		}
		key := verb + " " + label(metric, "code")
		if label(metric, "dry_run") != "" {
			key += " dry-run"
		}
		counts[key] += int(metric.GetCounter().GetValue())
	}
	return counts, nil
}

func label(metric *dto.Metric, name string) string {
	for _, pair := range metric.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}

// Since returns what was added to the counts before, and no zeros: two looks with nothing in
// between are equal to Counts{}.
func (c Counts) Since(before Counts) Counts {
	added := Counts{}
	for key, n := range c {
		if n -= before[key]; n != 0 {
			added[key] = n
		}
	}
	return added
}

// Total counts all requests.
func (c Counts) Total() int { return c.Succeeded() + c.Failed() }

// Succeeded counts the requests with a code of 2xx.
func (c Counts) Succeeded() int { return c.sum(true) }

// Failed counts all other requests, conflicts included.
func (c Counts) Failed() int { return c.sum(false) }

func (c Counts) sum(succeeded bool) int {
	total := 0
	for key, n := range c {
		if strings.Contains(key, " 2") == succeeded {
			total += n
		}
	}
	return total
}
