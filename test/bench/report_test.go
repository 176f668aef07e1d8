package bench

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/client-go/discovery"
)

// report has one table for each pair of sides.
type report []*table

func newReport() report {
	return report{{subject: library, reference: plain}, {subject: with, reference: without}}
}

// table has one line for each figure, in the order in which the figures were first added.
type table struct {
	subject, reference side // budgets apply to the subject
	lines              []*line
}

// line is one figure of both sides.
type line struct {
	*table
	what, figure string
	budget       budget
	samples      map[side][]float64 // one sample for each round
}

func (r report) add(what, figure string, s side, value float64, b budget) {
	for _, t := range r {
		if s == t.subject || s == t.reference {
			t.add(what, figure, s, value, b)
		}
	}
}

func (t *table) add(what, figure string, s side, value float64, b budget) {
	for _, l := range t.lines {
		if l.what == what && l.figure == figure {
			l.samples[s] = append(l.samples[s], value)
			return
		}
	}
	t.lines = append(t.lines, &line{t, what, figure, b, map[side][]float64{s: {value}}})
}

// ratios returns the ratio of the subject to the reference for each round. Ratios within a round are comparable even if
// the machine is slower in some rounds. Rounds in which the reference is zero are omitted.
func (l *line) ratios() []float64 {
	var ratios []float64
	for i, value := range l.samples[l.subject] {
		if i < len(l.samples[l.reference]) && l.samples[l.reference][i] != 0 {
			ratios = append(ratios, value/l.samples[l.reference][i])
		}
	}
	return ratios
}

// summary returns the median of the samples. For counts it returns the maximum, because a single additional write
// misses the budget.
func (l *line) summary(s side) float64 {
	if values := l.samples[s]; l.budget.exact && len(values) > 0 {
		return slices.Max(values)
	}
	return median(l.samples[s])
}

// outcome returns "met", "MISSED", or an empty string for a figure without a budget.
func (l *line) outcome() string {
	switch {
	case l.budget.text == noBudget.text:
		return ""
	case l.budget.met(l.samples[l.subject], l.ratios()):
		return "met"
	default:
		return "MISSED"
	}
}

// text formats the whole report.
func (r report) text(machine string, took time.Duration) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n", machine)
	fmt.Fprintf(&out, "Medians of the rounds, of writes the most; ratios of the two sides of each round: median (least..greatest). It took %s.\n", took.Round(time.Second))
	outcomes := map[string]int{}
	for _, t := range r {
		if len(t.lines) > 0 {
			fmt.Fprintf(&out, "\n%s", t.text())
		}
		for _, l := range t.lines {
			outcomes[l.outcome()]++
		}
	}
	fmt.Fprintf(&out, "\n%d of %d budgets are met.\n", outcomes["met"], outcomes["met"]+outcomes["MISSED"])
	return out.String()
}

func (t *table) text() string {
	var rows, out strings.Builder
	fmt.Fprintf(&rows, "WHAT\tFIGURE\t%s\t%s\tRATIO\tBUDGET\tVERDICT\n", strings.ToUpper(string(t.subject)), strings.ToUpper(string(t.reference)))
	last := ""
	for _, l := range t.lines {
		what := l.what
		if what == last {
			what = ""
		}
		last = l.what
		fmt.Fprintf(&rows, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			what, l.figure, formatValue(l.summary(t.subject)), formatValue(l.summary(t.reference)),
			formatRatios(l.ratios()), l.budget.text, l.outcome())
	}
	columns := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	_, _ = columns.Write([]byte(rows.String())) // writing to memory cannot fail
	_ = columns.Flush()
	return out.String()
}

// missedCounts returns a message for each count that misses its budget.
func (r report) missedCounts() []string {
	var missed []string
	for _, t := range r {
		for _, l := range t.lines {
			if l.budget.exact && l.outcome() == "MISSED" {
				missed = append(missed, fmt.Sprintf("%s: %s: %v, want %s", l.what, l.figure, l.samples[t.subject], l.budget.text))
			}
		}
	}
	return missed
}

// median returns the median, or NaN if there are no values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

// formatRatios formats the median and, for several ratios, the smallest and the largest one.
func formatRatios(ratios []float64) string {
	switch len(ratios) {
	case 0:
		return "-"
	case 1:
		return fmt.Sprintf("%.2f", ratios[0])
	default:
		return fmt.Sprintf("%.2f (%.2f..%.2f)", median(ratios), slices.Min(ratios), slices.Max(ratios))
	}
}

// formatValue formats a figure with about three significant digits. NaN becomes "-".
func formatValue(value float64) string {
	switch abs := math.Abs(value); {
	case math.IsNaN(value):
		return "-"
	case value == math.Trunc(value) || abs >= 100:
		return fmt.Sprintf("%.0f", value)
	case abs >= 10:
		return fmt.Sprintf("%.1f", value)
	default:
		return fmt.Sprintf("%.3f", value)
	}
}

// describe returns a description of the machine and the sizes of the scenarios.
func describe(b *bench) string {
	version := "an unknown kube-apiserver"
	if client, err := discovery.NewDiscoveryClientForConfig(b.cp.Config); err == nil {
		if v, err := client.ServerVersion(); err == nil {
			version = "kube-apiserver " + v.GitVersion
		}
	}
	return fmt.Sprintf("%s %s/%s, %d CPUs, %s\n"+
		"rounds %d, objects %d, backlog %d, standing %d, changes %d, daemons %d, interval %s, workers %d",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), version,
		b.rounds, b.objects, b.backlog, b.standing, b.changes, b.daemons, b.interval, b.workers)
}

// load returns the load average of the last minute.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "load unknown"
	}
	one, _, _ := strings.Cut(string(text), " ")
	return "load " + one
}
