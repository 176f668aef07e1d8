package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/keyed"
)

// ObjectSet is a set of one kind's objects whose size a gauge shows, such as the paused objects. The zero value is empty. ObjectSet is safe
// for concurrent use.
type ObjectSet struct {
	since keyed.Map[types.NamespacedName, time.Time]
}

// Note records whether the object with this key counts, and updates the gauge.
func (s *ObjectSet) Note(gauge prometheus.Gauge, key types.NamespacedName, counts bool) {
	if !counts && s.since.Len() == 0 {
		return
	}
	s.since.Update(key, func(since time.Time, found bool) (time.Time, bool) {
		n := s.since.Len()
		switch {
		case counts && !found:
			since, n = time.Now(), n+1
		case found && !counts:
			n--
		}
		gauge.Set(float64(n))
		return since, counts
	})
}

// Since returns when the object with this key started to count, or the zero time if it doesn't count.
func (s *ObjectSet) Since(key types.NamespacedName) time.Time { return s.since.Get(key) }
