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

// Counts are numbers of requests by verb and status code, such as {"PATCH 200": 3}. The verbs are those of the metric: POST, PUT, PATCH,
// APPLY (server-side apply, not counted as PATCH), DELETE and DELETECOLLECTION. Dry runs are counted separately, such as {"PATCH 200
// dry-run": 1}.
type Counts map[string]int

// Writes returns how many write requests for a plural resource name or one of its subresources have completed, according to the metric
// apiserver_request_total. It adds up resources of the same name in different groups. Requests with large responses are counted as late as
// they appear in [AuditTail.Next].
func (cp *ControlPlane) Writes(ctx context.Context, resource, subresource string) (Counts, error) {
	text, err := cp.get(ctx, "/metrics")
	if err != nil {
		return nil, fmt.Errorf("control plane: counters: %w", err)
	}
	counts, err := parseCounts(text, resource, subresource)
	if err != nil {
		return nil, fmt.Errorf("control plane: parse /metrics "+
			"(after an update of kube-apiserver, adapt internal/controlplane): %w", err)
	}
	return counts, nil
}

func parseCounts(text []byte, resource, subresource string) (Counts, error) {
	// Parse only the lines of this metric, because the text has tens of thousands of others.
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

// Since returns the differences from earlier counts, without zeros. If there were no requests in between, the result is empty.
func (c Counts) Since(before Counts) Counts {
	added := Counts{}
	for key, n := range c {
		if n -= before[key]; n != 0 {
			added[key] = n
		}
	}
	return added
}

// Total returns the number of all requests.
func (c Counts) Total() int { return c.Succeeded() + c.Failed() }

// Succeeded returns the number of requests with a 2xx status code.
func (c Counts) Succeeded() int { return c.sum(true) }

// Failed returns the number of requests with any other status code, such as conflicts.
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
