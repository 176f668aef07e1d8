package monitoring

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// perSecond are functions for counters.
var perSecond = []string{"rate", "irate", "increase"}

// checkExpression returns an error if an expression uses metrics, labels or values of labels that the code does not have.
func checkExpression(all map[string]family, expression string) error {
	parsed, err := promQL.ParseExpr(expression)
	if err != nil {
		return err
	}
	var errs []error
	selectors := 0
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			selectors++
			errs = append(errs, checkSelector(all, n))
		case *parser.AggregateExpr:
			errs = append(errs, checkGrouping(all, n.Expr, n.Grouping))
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				errs = append(errs, checkGrouping(all, n, slices.Concat(n.VectorMatching.MatchingLabels, n.VectorMatching.Include)))
			}
		case *parser.Call:
			errs = append(errs, checkCall(all, n))
		}
		return nil
	})
	if selectors == 0 {
		errs = append(errs, errors.New("the expression selects no metric"))
	}
	return errors.Join(errs...)
}

func checkSelector(all map[string]family, s *parser.VectorSelector) error {
	f, found := all[s.Name]
	if !found {
		return fmt.Errorf("unknown metric %q", s.Name)
	}
	var errs []error
	for _, m := range s.LabelMatchers {
		switch {
		case m.Name == model.MetricNameLabel || slices.Contains(targetLabels, m.Name):
		case !slices.Contains(f.labels, m.Name):
			errs = append(errs, fmt.Errorf("%s has no label %q", s.Name, m.Name))
		case m.Value == anyValue:
		case m.Name == "outcome" || m.Name == "reason" || m.Name == "state" || m.Name == "result":
			errs = append(errs, checkValues(f, m))
		}
	}
	return errors.Join(errs...)
}

// checkValues checks each value of a matcher: "failed", or "failed|retried".
func checkValues(f family, m *labels.Matcher) error {
	for value := range strings.SplitSeq(m.Value, "|") {
		if !slices.Contains(f.values[m.Name], value) {
			return fmt.Errorf("the label %s never has the value %q", m.Name, value)
		}
	}
	return nil
}

// checkGrouping checks that all metrics of an expression have the labels.
func checkGrouping(all map[string]family, expression parser.Node, grouping []string) error {
	var errs []error
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			for _, label := range grouping {
				if !slices.Contains(all[s.Name].labels, label) {
					errs = append(errs, fmt.Errorf("%s has no label %q", s.Name, label))
				}
			}
		}
		return nil
	})
	return errors.Join(errs...)
}

func checkCall(all map[string]family, call *parser.Call) error {
	if !slices.Contains(perSecond, call.Func.Name) {
		return nil
	}
	m, ok := call.Args[0].(*parser.MatrixSelector)
	if !ok {
		return fmt.Errorf("%s needs the range of a metric", call.Func.Name)
	}
	if s := m.VectorSelector.(*parser.VectorSelector); all[s.Name].kind != dto.MetricType_COUNTER {
		return fmt.Errorf("%s needs a counter, and %s is none", call.Func.Name, s.Name)
	}
	return nil
}

// anyValue is the value of dashboard variables.
const anyValue = ".*"

var variable = regexp.MustCompile(`\$\{?(\w+)\}?`)

// substitute replaces the variables of Grafana in an expression.
func substitute(expression string, variables []string) (string, error) {
	var unknown error
	text := variable.ReplaceAllStringFunc(expression, func(reference string) string {
		switch name := variable.FindStringSubmatch(reference)[1]; {
		case name == "__rate_interval":
			return "5m"
		case name == "__range":
			return "1h"
		case slices.Contains(variables, name):
			return anyValue
		default:
			unknown = fmt.Errorf("unknown variable $%s", name)
			return reference
		}
	})
	return text, unknown
}

func TestCheckExpression_ReportsMistakes(t *testing.T) {
	all := known(exposed(t))
	for expression, want := range map[string]string{
		`kopf_handler_attempts_totals`:                              `unknown metric "kopf_handler_attempts_totals"`,
		`kopf_handler_attempts_total{handlers="a"}`:                 `no label "handlers"`,
		`kopf_handler_attempts_total{outcome="error"}`:              `never has the value "error"`,
		`kopf_handler_attempts_total{outcome=~"failed|errors"}`:     `never has the value "errors"`,
		`sum by (handler) (kopf_watch_problems)`:                    `kopf_watch_problems has no label "handler"`,
		`kopf_paused and on (kind) kopf_peers`:                      `kopf_paused has no label "kind"`,
		`rate(kopf_daemons[5m])`:                                    `needs a counter`,
		`kopf_handler_duration_seconds > 1`:                         `unknown metric`,
		`sum by (le) (rate(kopf_handler_duration_seconds_sum[5m]))`: `no label "le"`,
		`workqueue_depth{queue="a"}`:                                `no label "queue"`,
		`rest_client_requests_total{verb="GET"}`:                    `no label "verb"`,
		`sum(kopf_paused`:                                           `unclosed`,
		`vector(1) > 1`:                                             `selects no metric`,
	} {
		t.Run(expression, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(checkExpression(all, expression)).To(MatchError(ContainSubstring(want)))
		})
	}
	g := NewWithT(t)
	g.Expect(checkExpression(all, `sum by (exported_namespace) (kopf_paused{namespace="a"})`)).To(Succeed())
	_, err := substitute(`a{b="$other"}`, []string{"kind"})
	g.Expect(err).To(MatchError("unknown variable $other"))
}
