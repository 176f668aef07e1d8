package metrics_test

import (
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
)

func TestWatchProblemCount_AddsTheCountsOfOneKind(t *testing.T) {
	expect := func(when string, want float64) {
		t.Helper()
		var m dto.Metric
		if err := metrics.WatchProblems.WithLabelValues("shared", "silent").Write(&m); err != nil {
			t.Fatal(err)
		}
		if got := m.GetGauge().GetValue(); got != want {
			t.Errorf("%s: got %v, want %v", when, got, want)
		}
	}
	one, two := metrics.NewWatchProblemCount("shared"), metrics.NewWatchProblemCount("shared")
	one.Set(map[string]int{"silent": 2})
	two.Set(map[string]int{"silent": 3, "forbidden": 1})
	expect("both", 5)
	one.Set(map[string]int{"forbidden": 1})
	expect("without a reason of the first one", 3)
	two.Close()
	expect("after the end of the second one", 0)
	one.Close()
	if metrics.WatchProblems.DeleteLabelValues("shared", "silent") {
		t.Error("the time series remains after the end of both counts")
	}
}
