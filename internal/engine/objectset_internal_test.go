package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"
)

func TestObjectSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var set objectSet
		gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "objects"}, []string{"kind"})
		start := time.Now()
		for _, step := range []struct {
			name   string
			counts bool
			want   float64
			since  time.Duration // after the start; -1 if the object does not count
		}{
			{"a", false, 0, -1},
			{"a", true, 1, 2 * time.Second},
			{"b", true, 2, 3 * time.Second},
			{"a", true, 2, 2 * time.Second},
			{"a", false, 1, -1},
			{"c", false, 1, -1},
			{"b", false, 0, -1},
		} {
			<-time.After(time.Second)
			key := types.NamespacedName{Name: step.name}
			set.Note(gauge.WithLabelValues("widgets"), key, step.counts)
			var got dto.Metric
			if err := gauge.WithLabelValues("widgets").Write(&got); err != nil {
				t.Fatal(err)
			}
			want := start.Add(step.since)
			if step.since < 0 {
				want = time.Time{}
			}
			if since := set.Since(key); got.GetGauge().GetValue() != step.want || !since.Equal(want) {
				t.Errorf("%+v: the gauge is %v, and the object counts since %s", step, got.GetGauge().GetValue(), since)
			}
		}
	})
}
