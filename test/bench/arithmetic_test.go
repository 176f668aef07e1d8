package bench

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{nil, math.NaN()},
		{[]float64{3}, 3},
		{[]float64{4, 1}, 2.5},
		{[]float64{9, 1, 2}, 2},
	} {
		if got := median(test.values); !cmp.Equal(got, test.want, cmpopts.EquateNaNs()) {
			t.Errorf("median(%v) = %v, want %v", test.values, got, test.want)
		}
	}
}

func TestPercentile(t *testing.T) {
	values := []float64{5, 1, 4, 2, 3}
	for percent, want := range map[int]float64{0: 1, 50: 3, 99: 5, 100: 5} {
		if got := percentile(values, percent); got != want {
			t.Errorf("percentile(%v, %d) = %v, want %v", values, percent, got, want)
		}
	}
}

func TestRatios_PairsTheValuesOfEachRound(t *testing.T) {
	got := ratios([]float64{2, 0, math.NaN(), 4}, []float64{3, 1, 1, 8, 5})
	if diff := cmp.Diff([]float64{1.5, 2}, got); diff != "" {
		t.Errorf("ratios differ (-want +got):\n%s", diff)
	}
}

// The machine of the second round is half as fast. In the first round, it is slower only during the sample of the library.
func TestReport_NormalizesByServerTime(t *testing.T) {
	const ms = time.Millisecond
	r := &report{opponents: []side{plain}}
	for _, s := range []struct {
		side
		sample
	}{
		{plain, sample{objects: 10, took: time.Second, cpu: 100 * ms, servers: 400 * ms, writes: 10, reconciles: 20}},
		{library, sample{objects: 10, took: 2 * time.Second, cpu: 300 * ms, servers: 800 * ms, writes: 10, reconciles: 20}},
		{library, sample{objects: 10, took: 2 * time.Second, cpu: 300 * ms, servers: 800 * ms, writes: 11, reconciles: 20}},
		{plain, sample{objects: 10, took: 2 * time.Second, cpu: 200 * ms, servers: 800 * ms, writes: 10, reconciles: 20}},
	} {
		r.addSample("create", 1, s.side, s.sample)
	}
	r.addFigure("create", "heap bytes per object", plain, 100)
	r.addFigure("create", "heap bytes per object", library, 150)
	for _, want := range []string{
		"| create | 1 / 1.050 | 2 / 2 | 0.75 (0.50..1.00) | 15 / 30 | 2.25 (1.50..3.00) | 1.50 (1.50..1.50) |\n",
		"| create | heap bytes per object | 100 / 150 | 50 | 1.50 |\n",
	} {
		if got := r.String(); !strings.Contains(got, want) {
			t.Errorf("report = \n%s\nwant the line\n%s", got, want)
		}
	}
	if diff := cmp.Diff([]string{"round 2: create, kopf-runtime: writes = 11, want 10"}, r.unexpectedWrites()); diff != "" {
		t.Errorf("unexpected writes differ (-want +got):\n%s", diff)
	}
}

func TestReport_UnknownTimes(t *testing.T) {
	r := &report{opponents: []side{plain}}
	r.addSample("restart", 0, plain, sample{objects: 10, cpu: time.Second})
	r.addSample("restart", 0, library, sample{objects: 10, cpu: time.Second})
	if got, want := r.String(), "| restart | 0 / 0 | 0 / 0 | - | 100 / 100 | 1.00 | - |\n"; !strings.HasSuffix(got, want) {
		t.Errorf("report = \n%s\nwant the last line\n%s", got, want)
	}
}

func TestParseStat(t *testing.T) {
	got, err := parseStat("31 (a (b) c) S 7 31 20 0 -1 41 98 0 0 0 150 50 3 4 20 0 1 0 57 31 383\n")
	if want := (procStat{"a (b) c", 7, 2 * time.Second}); err != nil || got != want {
		t.Errorf("parseStat() = %v, %v, want %v", got, err, want)
	}
	for _, text := range []string{"", "31 a S 7", "31 (a) S 7", "31 (a) S x 31 20 0 -1 41 98 0 0 0 150 50 3 4"} {
		if got, err := parseStat(text); err == nil {
			t.Errorf("parseStat(%q) = %v, want an error", text, got)
		}
	}
}
