package monitoring

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/schema"
	"github.com/prometheus/prometheus/template"
	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
)

const rulesFile = "../../config/prometheus/rules.yaml"

// readRules returns the rules by the name of their alert.
func readRules(t testing.TB) map[string]monitoringv1.Rule {
	t.Helper()
	g := NewWithT(t)
	text, err := os.ReadFile(filepath.FromSlash(rulesFile))
	g.Expect(err).NotTo(HaveOccurred())
	var object monitoringv1.PrometheusRule
	g.Expect(yaml.UnmarshalStrict(text, &object)).To(Succeed())
	g.Expect(object.Kind).To(Equal(monitoringv1.PrometheusRuleKind))
	rules := map[string]monitoringv1.Rule{}
	for _, group := range object.Spec.Groups {
		for _, r := range group.Rules {
			g.Expect(rules).NotTo(HaveKey(r.Alert))
			rules[r.Alert] = r
		}
	}
	return rules
}

func holdFor(t testing.TB, r monitoringv1.Rule) time.Duration {
	t.Helper()
	if r.For == nil {
		return 0
	}
	d, err := model.ParseDuration(string(*r.For))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return time.Duration(d)
}

// firing are the minutes in which an alert fires, by its labels.
type firing map[string][]int

// evaluate evaluates an alert in each minute until minute 180, as Prometheus does. It returns the minutes in which it fires, and the last sample of each alert.
func evaluate(t testing.TB, r monitoringv1.Rule, d database, from int) (firing, map[string]promql.Sample) {
	t.Helper()
	g := NewWithT(t)
	hold := holdFor(t, r)
	fires, samples, since := firing{}, map[string]promql.Sample{}, map[string]int{}
	for minute := from; minute <= 180; minute++ {
		result, err := query(t.Context(), d, r.Expr.String(), minute)
		g.Expect(err).NotTo(HaveOccurred())
		active := map[string]bool{}
		for _, s := range result {
			key := s.Metric.DropReserved(schema.IsMetadataLabel).String()
			g.Expect(active[key]).To(BeFalse(), "two results have the labels %s", key)
			active[key] = true
			if _, found := since[key]; !found {
				since[key] = minute
			}
			if time.Duration(minute-since[key])*time.Minute >= hold {
				fires[key] = append(fires[key], minute)
				samples[key] = s
			}
		}
		maps.DeleteFunc(since, func(key string, _ int) bool { return !active[key] })
	}
	return fires, samples
}

// description expands a template. With strict, the template must not use labels that the alert does not have.
func description(ctx context.Context, text string, s promql.Sample, strict bool) (string, error) {
	var options []string
	if strict {
		options = []string{"missingkey=error"}
	}
	text = "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$value := .Value}}" + text // as in Prometheus
	return template.NewTemplateExpander(ctx, text, "alert", template.AlertTemplateData(s.Metric.Map(), nil, "", s), 0, nil, nil, options).Expand()
}

func TestAlerts_AreValidRules(t *testing.T) {
	g := NewWithT(t)
	all := known(exposed(t))
	text, err := os.ReadFile(rulesFile)
	g.Expect(err).NotTo(HaveOccurred())
	var object struct {
		Spec any `json:"spec"`
	}
	g.Expect(yaml.Unmarshal(text, &object)).To(Succeed())
	groups, err := yaml.Marshal(object.Spec)
	g.Expect(err).NotTo(HaveOccurred())
	_, errs := rulefmt.Parse(groups, false, model.UTF8Validation, promQL, slog.New(slog.DiscardHandler))
	g.Expect(errs).To(BeEmpty())

	rules := readRules(t)
	g.Expect(rules).To(HaveLen(14))
	for name, r := range rules {
		g.Expect(name).To(MatchRegexp(`^Kopf[A-Z]\w+$`))
		g.Expect(checkExpression(all, r.Expr.String())).To(Succeed(), name)
		g.Expect(r.Labels).To(HaveKeyWithValue("severity", BeElementOf("warning", "critical")), name)
		g.Expect(slices.Sorted(maps.Keys(r.Annotations))).To(Equal([]string{"description", "runbook_url", "summary"}), name)
		g.Expect(r.Annotations["runbook_url"]).To(Equal("https://github.com/kopf-runtime/kopf-runtime/blob/main/docs/monitoring.md#" + strings.ToLower(name)))
	}
}

// An alertCase has the series of operators from minute 0 on, and the alerts that must fire.
type alertCase struct {
	name   string
	alert  string
	from   int // first minute of the evaluation
	series []string
	want   firing
	text   string // description of the only alert
}

// through returns the numbers from first to last.
func through(first, last int) (all []int) {
	for n := first; n <= last; n++ {
		all = append(all, n)
	}
	return all
}

const (
	byKind    = `{job="databases", kind="database", namespace="databases-system"}`
	byHandler = `{handler="provision", job="databases", kind="database", namespace="databases-system"}`
	suffix    = " Operator: databases in databases-system."
)

var alertCases = []alertCase{
	{
		name: "an existing counter increases", alert: "KopfHandlerFailed",
		series: []string{`kopf_handler_attempts_total{kind="database",handler="provision",outcome="failed"} 1x39 2x60`},
		// A new series counts as a failure, too.
		want: firing{byHandler: slices.Concat(through(0, 14), through(40, 53))},
		text: "The handler provision of database has failed permanently in the last 15 minutes. The engine does not call it again for the same change." + suffix,
	},
	{
		name: "a new series has only its first value", alert: "KopfHandlerFailed",
		series: []string{`kopf_handler_attempts_total{kind="database",handler="provision",outcome="failed"} _x30 1x60`},
		want:   firing{byHandler: through(30, 44)},
	},
	{
		name: "the pod restarts and the new process fails", alert: "KopfHandlerFailed",
		series: []string{
			`kopf_handler_attempts_total{kind="database",handler="provision",outcome="failed",__pod__="a"} 3x50`,
			`kopf_handler_attempts_total{kind="database",handler="provision",outcome="failed",__pod__="b"} _x60 1x40`,
		},
		want: firing{byHandler: slices.Concat(through(0, 14), through(60, 74))},
	},
	{
		name: "other outcomes", alert: "KopfHandlerFailed",
		series: []string{
			`kopf_handler_attempts_total{kind="database",handler="provision",outcome="succeeded"} 0+1x90`,
			`kopf_handler_attempts_total{kind="database",handler="provision",outcome="retried"} 0+1x90`,
		},
	},
	{
		name: "half of the attempts of a handler are retried", alert: "KopfHandlerRetrying",
		series: []string{
			`kopf_handler_attempts_total{kind="database",handler="provision",outcome="retried"} 0+1x180`,
			`kopf_handler_attempts_total{kind="database",handler="provision",outcome="succeeded"} 0+1x180`,
		},
	},
	{
		name: "few retries", alert: "KopfHandlerRetrying",
		series: []string{`kopf_handler_attempts_total{kind="database",handler="provision",outcome="retried"} 0x60 9x120`},
	},
	{
		name: "a handler waits for sub-handlers", alert: "KopfHandlerRetrying",
		series: []string{`kopf_handler_attempts_total{kind="database",handler="provision",outcome="waiting"} 0+1x180`},
	},
	{
		name: "a handler panics", alert: "KopfHandlerPanicked",
		series: []string{`kopf_handler_panics_total{kind="database",handler="provision"} _x30 1x60`},
		want:   firing{byHandler: through(30, 44)},
		text:   "The handler provision of database has panicked in the last 15 minutes. The log has the stack." + suffix,
	},
	{
		name: "the last panic is older", alert: "KopfHandlerPanicked", from: 20,
		series: []string{`kopf_handler_panics_total{kind="database",handler="provision"} 5x180`},
	},
	{
		name: "objects wait", alert: "KopfObjectsWaiting",
		series: []string{`kopf_oldest_unhandled_seconds{kind="database"} 0x9 301+60x20 0x20`, `kopf_oldest_unhandled_seconds{kind="database",__pod__="standby"} 0x60`},
		want:   firing{byKind: through(15, 30)},
		text:   "An object of database has been waiting for a worker for 25m 1s." + suffix,
	},
	{
		name: "objects wait for a short time", alert: "KopfObjectsWaiting",
		series: []string{`kopf_oldest_unhandled_seconds{kind="database"} 0x9 400x4 0x9 300x60`},
	},
	{
		name: "a watch is forbidden", alert: "KopfWatchProblem",
		series: []string{
			`kopf_watch_problems{kind="database",reason="forbidden"} 0x9 2x20 0x20`,
			`kopf_watch_problems{kind="database",reason="silent"} 0x50`,
		},
		want: firing{`{job="databases", kind="database", namespace="databases-system", reason="forbidden"}`: through(15, 30)},
		text: "2 watches of database deliver no changes (reason: forbidden), so the operator does not handle changes of these objects." + suffix,
	},
	{
		name: "a watch has a problem for a short time", alert: "KopfWatchProblem",
		series: []string{`kopf_watch_problems{kind="database",reason="silent"} 0x9 1x4 0x50`},
	},
	{
		name: "objects do not decode", alert: "KopfObjectsUndecodable",
		series: []string{`kopf_undecodable_objects{kind="database"} 0x9 2x20 0x20`},
		want:   firing{byKind: through(15, 30)},
		text:   "2 objects of database do not decode into their Go type, so the operator does not handle them." + suffix,
	},
	{
		name: "an object does not decode for a short time", alert: "KopfObjectsUndecodable",
		series: []string{`kopf_undecodable_objects{kind="database"} 0x9 1x4 0x50`},
	},
	{
		name: "a permission is missing", alert: "KopfPermissionMissing",
		series: []string{`kopf_missing_permissions{group="example.com",resource="databases",verb="patch",namespace="shop"} _x10 1x20`},
		want: firing{
			`{exported_namespace="shop", group="example.com", job="databases", namespace="databases-system", resource="databases", verb="patch"}`: through(15, 34),
		},
		text: "The operator does not have the permission to patch databases.example.com in the namespace shop." + suffix,
	},
	{
		name: "a permission of the core group for the cluster is missing", alert: "KopfPermissionMissing",
		series: []string{`kopf_missing_permissions{group="",resource="secrets",verb="list",namespace=""} 1x10`},
		want:   firing{`{job="databases", namespace="databases-system", resource="secrets", verb="list"}`: through(5, 14)},
		text:   "The operator does not have the permission to list secrets." + suffix,
	},
	{
		name: "a permission is missing for a short time", alert: "KopfPermissionMissing",
		series: []string{`kopf_missing_permissions{group="example.com",resource="databases",verb="patch"} _x10 1x1 0x30`},
	},
	{
		name: "handlers cause their own calls", alert: "KopfHandlerLoop",
		series: []string{`kopf_held_objects{kind="database",reason="loop"} 0x9 2x20 0x9`},
		want:   firing{`{job="databases", kind="database", namespace="databases-system"}`: through(15, 30)},
		text:   "The handlers of 2 objects of database cause their own calls again and again, so these calls are delayed." + suffix,
	},
	{
		name: "a short loop", alert: "KopfHandlerLoop",
		series: []string{`kopf_held_objects{kind="database",reason="loop"} 0x9 1x3 0x20`},
	},
	{
		name: "a rollout is halted", alert: "KopfRolloutHalted",
		series: []string{`kopf_rollout_halted{kind="database"} 0x9 1x20 0x20`, `kopf_rollout_halted{kind="database",__pod__="shard-1"} 0x9 1x20 0x20`},
		want:   firing{byKind: through(15, 30)},
		text:   "The rollout of database begins with no more objects until someone resumes it." + suffix,
	},
	{
		name: "a rollout is resumed soon", alert: "KopfRolloutHalted",
		series: []string{`kopf_rollout_halted{kind="database"} 0x9 1x3 0x20`},
	},
	{
		name: "all operators are paused", alert: "KopfPaused",
		series: []string{
			`kopf_paused{peering="default",namespace="shop"} 0x9 1x30`,
			`kopf_paused{peering="default",namespace="shop",__job__="invoices"} 1x40`,
			`kopf_paused{peering="default",namespace="other"} 0x39`,
		},
		want: firing{
			`{exported_namespace="shop", job="databases", namespace="databases-system", peering="default"}`: through(25, 44),
			`{exported_namespace="shop", job="invoices", namespace="databases-system", peering="default"}`:  through(25, 44),
		},
	},
	{
		name: "the operator is paused in a namespace", alert: "KopfPaused",
		series: []string{`kopf_paused{peering="default",namespace="shop"} 1x39`},
		want:   firing{`{exported_namespace="shop", job="databases", namespace="databases-system", peering="default"}`: through(15, 43)},
		text:   "All operators that share the peering default in the namespace shop are paused, so no handlers are called." + suffix,
	},
	{
		name: "the operator is paused in the cluster", alert: "KopfPaused",
		series: []string{`kopf_paused{peering="default",namespace=""} 1x39`},
		want:   firing{`{job="databases", namespace="databases-system", peering="default"}`: through(15, 43)},
		text:   "All operators that share the peering default are paused, so no handlers are called." + suffix,
	},
	{
		name: "another operator of the peering is active", alert: "KopfPaused",
		series: []string{`kopf_paused{peering="default"} 1x60`, `kopf_paused{peering="default",__job__="invoices"} 0x60`},
	},
	{
		name: "another operator is active in one of two namespaces", alert: "KopfPaused",
		series: []string{
			`kopf_paused{peering="default",namespace="shop"} 1x39`,
			`kopf_paused{peering="default",namespace="shop",__job__="invoices"} 0x39`,
			`kopf_paused{peering="default",namespace="other"} 1x39`,
		},
		want: firing{`{exported_namespace="other", job="databases", namespace="databases-system", peering="default"}`: through(15, 43)},
	},
	{
		name: "another replica is active", alert: "KopfPaused",
		series: []string{`kopf_paused{peering="default",__pod__="a"} 1x60`, `kopf_paused{peering="default",__pod__="b"} 0x60`},
	},
	{
		name: "daemons do not stop", alert: "KopfBackgroundNotStopping",
		series: []string{
			`kopf_background_unstopped{kind="database",handler="provision",__pod__="a"} 0x9 1x20 0x20`,
			`kopf_background_unstopped{kind="database",handler="provision",__pod__="b"} 1x30 0x20`,
		},
		want: firing{byHandler: through(10, 30)},
		text: "2 runs of the daemon or timer provision of database ignore the cancellation of their contexts." + suffix,
	},
	{
		name: "a daemon stops late", alert: "KopfBackgroundNotStopping",
		series: []string{`kopf_background_unstopped{kind="database",handler="provision"} 0x9 1x9 0x20`},
	},
	{
		name: "a shard does not release objects", alert: "KopfDrainStuck",
		series: []string{
			`kopf_draining_objects{kind="database",__pod__="a"} 0x9 2x20 0x20`,
			`kopf_draining_objects{kind="database",__pod__="b"} 0x50`,
		},
		want: firing{`{job="databases", kind="database", namespace="databases-system", pod="a"}`: through(20, 30)},
		text: "2 objects of database must move from the pod a to another shard, and have been waiting for their handlers, daemons or timers for more than 10 minutes." + suffix,
	},
	{
		name: "shards release objects", alert: "KopfDrainStuck",
		series: []string{
			`kopf_draining_objects{kind="database",__pod__="a"} 0x9 5x9 0x30`,
			`kopf_draining_objects{kind="database",__pod__="b"} 0x19 5x9 0x20`,
		},
	},
	{
		name: "progress is rejected", alert: "KopfProgressRejected",
		series: []string{`kopf_rejected_progress_total{kind="database"} _x30 1x60`},
		want:   firing{byKind: through(30, 44)},
		text: "The API server has rejected records or baselines of database in the last 15 minutes. The operator keeps them in memory, so a restart can repeat handlers." +
			suffix,
	},
	{
		name: "the last rejection is older", alert: "KopfProgressRejected", from: 20,
		series: []string{`kopf_rejected_progress_total{kind="database"} 5x180`},
	},
	{
		name: "the last dropped field is older", alert: "KopfFieldsDropped", from: 20,
		series: []string{`kopf_dropped_fields_total{kind="database"} 5x180`},
	},
	{
		name: "a counter begins again in the same pod", alert: "KopfFieldsDropped", from: 20,
		series: []string{`kopf_dropped_fields_total{kind="database"} 5x59 1x120`},
		want:   firing{byKind: through(60, 73)},
	},
	{
		name: "fields are dropped", alert: "KopfFieldsDropped",
		series: []string{`kopf_dropped_fields_total{kind="database"} _x30 1x60`},
		want:   firing{byKind: through(30, 44)},
		text:   "The API server has not stored fields of database that handlers have set in the last 15 minutes." + suffix,
	},
	{
		name: "a handler is retried", alert: "KopfHandlerRetrying",
		series: []string{
			`kopf_handler_attempts_total{kind="database",handler="provision",outcome="retried"} 0x29 0+1x90 90x60`,
			`kopf_handler_attempts_total{kind="database",handler="provision",outcome="succeeded"} 1x200`,
		},
		want: firing{byHandler: through(55, 169)},
	},
}

func TestAlerts_FireForTheirProblems(t *testing.T) {
	all, rules := known(exposed(t)), readRules(t)
	firing, silent := map[string]bool{}, map[string]bool{}
	for _, c := range alertCases {
		t.Run(c.alert+" "+c.name, func(t *testing.T) {
			g := NewWithT(t)
			rule, found := rules[c.alert]
			g.Expect(found).To(BeTrue())
			got, samples := evaluate(t, rule, parseSeries(t, all, c.series...), c.from)
			if len(c.want) == 0 {
				silent[c.alert] = true
				g.Expect(got).To(BeEmpty())
				return
			}
			firing[c.alert] = true
			g.Expect(got).To(Equal(c.want))
			if c.text == "" {
				return
			}
			for _, s := range samples {
				g.Expect(description(t.Context(), rule.Annotations["description"], s, false)).To(Equal(c.text))
			}
		})
	}
	g := NewWithT(t)
	for name := range rules {
		g.Expect(firing).To(HaveKey(name), "the alert fires in no case")
		g.Expect(silent).To(HaveKey(name), "the alert fires in all cases")
	}
}

var optionalGroup = regexp.MustCompile(`apiGroups: \[(\S+)\] # optional`)

// Operators without optional permissions are complete, so the alert must not fire for them.
func TestAlerts_IgnoreOptionalPermissions(t *testing.T) {
	g := NewWithT(t)
	var roles strings.Builder
	configMaps := kopf.For(&corev1.ConfigMap{}, kopf.WhenServed()).OnCreate("copy", func(context.Context, *kopf.Request[*corev1.ConfigMap]) error { return nil })
	g.Expect(kopf.WriteRights(&roles, clientgoscheme.Scheme, rights.Options{Name: "copier"}, configMaps, kopf.WithPeering(peering.Options{}))).To(Succeed())
	groups := optionalGroup.FindAllStringSubmatch(roles.String(), -1)
	g.Expect(groups).NotTo(BeEmpty())
	all, rule := known(exposed(t)), readRules(t)["KopfPermissionMissing"]
	series := func(group string) database {
		return parseSeries(t, all, `kopf_missing_permissions{group="`+group+`",resource="x",verb="watch"} 1x60`)
	}
	for _, group := range groups {
		fires, _ := evaluate(t, rule, series(group[1]), 0)
		g.Expect(fires).To(BeEmpty(), group[1])
	}
	fires, _ := evaluate(t, rule, series("kopf.dev"), 0)
	g.Expect(fires).NotTo(BeEmpty())
}

// A template must not use labels that the expression drops. In Prometheus, such a label is an empty text.
func TestAlerts_TemplatesUseExistingLabels(t *testing.T) {
	for name, r := range readRules(t) {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := labels.NewBuilder(labels.EmptyLabels())
			for _, label := range grouping(t, r.Expr.String()) {
				b.Set(label, "x")
			}
			s := promql.Sample{F: 1, Metric: b.Labels()}
			for annotation, text := range r.Annotations {
				_, err := description(t.Context(), text, s, true)
				g.Expect(err).NotTo(HaveOccurred(), annotation)
			}
			_, err := description(t.Context(), "{{ $labels.other }}", s, true)
			g.Expect(err).To(HaveOccurred())
		})
	}
}

// grouping returns the labels of the outer aggregation of an expression.
func grouping(t testing.TB, expression string) (found []string) {
	t.Helper()
	parsed, err := promQL.ParseExpr(expression)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if a, ok := node.(*parser.AggregateExpr); ok && found == nil {
			found = a.Grouping
		}
		return nil
	})
	return found
}
