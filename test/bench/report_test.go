package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// sample is the cost of one measurement of one side.
type sample struct {
	objects            int
	took, cpu, servers time.Duration // elapsed time, or zero if it is fixed; CPU time of the operator and of the servers, or zero if unknown
	writes, reconciles int64
}

func (s sample) throughput() float64     { return quotient(float64(s.objects), s.took.Seconds()) }
func (s sample) cpuPerObject() float64   { return quotient(milliseconds(s.cpu), float64(s.objects)) }
func (s sample) writesEach() float64     { return quotient(float64(s.writes), float64(s.objects)) }
func (s sample) reconcilesEach() float64 { return quotient(float64(s.reconciles), float64(s.objects)) }

// normedCPU returns the CPU time of the operator as a part of that of the servers, which depends less on the speed of the
// machine.
func (s sample) normedCPU() float64 { return quotient(float64(s.cpu), float64(s.servers)) }

// quotient returns NaN if b is zero.
func quotient(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a / b
}

// report contains one sample of each side for each round.
type report struct {
	opponents []side // the library is compared with each of them
	rows      []*row
	figures   []*figure
}

// row is a line of the first table.
type row struct {
	name    string
	writes  int // expected number of writes for each object
	samples map[side][]sample
}

// figure is a line of the second table.
type figure struct {
	row, name string
	values    map[side][]float64
}

func (r *report) addSample(name string, writes int, s side, added sample) {
	i := slices.IndexFunc(r.rows, func(known *row) bool { return known.name == name })
	if i < 0 {
		i = len(r.rows)
		r.rows = append(r.rows, &row{name, writes, map[side][]sample{}})
	}
	r.rows[i].samples[s] = append(r.rows[i].samples[s], added)
}

func (r *report) addFigure(rowName, name string, s side, value float64) {
	i := slices.IndexFunc(r.figures, func(known *figure) bool { return known.row == rowName && known.name == name })
	if i < 0 {
		i = len(r.figures)
		r.figures = append(r.figures, &figure{rowName, name, map[side][]float64{}})
	}
	r.figures[i].values[s] = append(r.figures[i].values[s], value)
}

// values returns one value of a side for each round.
func (r *row) values(s side, value func(sample) float64) (all []float64) {
	for _, x := range r.samples[s] {
		all = append(all, value(x))
	}
	return all
}

// compare returns the values of both sides, the opponent's first, and their ratio.
func (r *row) compare(opponent side, value func(sample) float64) (both, ratio string) {
	theirs, ours := r.values(opponent, value), r.values(library, value)
	return formatBoth(theirs, ours), formatRatios(ratios(theirs, ours))
}

// line formats the row as a line of a Markdown table.
func (r *row) line(opponent side) string {
	writes, _ := r.compare(opponent, sample.writesEach)
	reconciles, _ := r.compare(opponent, sample.reconcilesEach)
	_, throughput := r.compare(opponent, sample.throughput)
	cpu, ratio := r.compare(opponent, sample.cpuPerObject)
	_, normed := r.compare(opponent, sample.normedCPU)
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s |", r.name, writes, reconciles, throughput, cpu, ratio, normed)
}

// unexpectedWrites returns a message for each sample with a different number of writes than expected. kopf's numbers are only reported.
func (r *report) unexpectedWrites() (texts []string) {
	for _, row := range r.rows {
		for _, s := range []side{plain, minimum, library} {
			for round, x := range row.samples[s] {
				if want := int64(row.writes * x.objects); x.writes != want {
					texts = append(texts, fmt.Sprintf("round %d: %s, %s: writes = %d, want %d", round+1, row.name, s, x.writes, want))
				}
			}
		}
	}
	return texts
}

// String formats the report as Markdown, with tables for each opponent.
func (r *report) String() string {
	var out strings.Builder
	for i, opponent := range r.opponents {
		if i > 0 {
			out.WriteString("\n")
		}
		r.write(&out, opponent)
	}
	return out.String()
}

func (r *report) write(out *strings.Builder, opponent side) {
	both := fmt.Sprintf("%s / %s", opponent, library)
	out.WriteString("| scenario | writes | reconciles | throughput ratio | CPU ms per object (" + both + ") | CPU ratio | CPU ratio, normalized |\n" +
		"| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, row := range r.rows {
		fmt.Fprintln(out, row.line(opponent))
	}
	if len(r.figures) > 0 {
		out.WriteString("\n| scenario | figure | " + both + " | difference | ratio |\n| --- | --- | --- | --- | --- |\n")
	}
	for _, f := range r.figures {
		a, b := f.values[opponent], f.values[library]
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s |\n", f.row, f.name, formatBoth(a, b), formatValue(median(b)-median(a)), formatRatios(ratios(a, b)))
	}
}

// ratios returns the ratio of the values of each round. The speed of the machine affects both values of a round. Rounds
// without a ratio are omitted.
func ratios(theirs, ours []float64) (all []float64) {
	for i := range min(len(theirs), len(ours)) {
		if ratio := quotient(ours[i], theirs[i]); !math.IsNaN(ratio) {
			all = append(all, ratio)
		}
	}
	return all
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

// percentile returns the value below which the given percentage of the values lies. values must not be empty.
func percentile(values []float64, percent int) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)]
}

// formatBoth formats the medians of both sides.
func formatBoth(theirs, ours []float64) string {
	return formatValue(median(theirs)) + " / " + formatValue(median(ours))
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

// milliseconds converts d without rounding.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
