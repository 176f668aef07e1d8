package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/keyed"
)

// ObjectSet contains the objects of one kind that a gauge counts, such as paused objects. The zero value is empty. ObjectSet is safe for concurrent use.
type ObjectSet struct {
	since keyed.Map[types.NamespacedName, time.Time]
}

// Note records whether the object of a key counts, and updates the gauge.
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

// Since returns the time since when the object of a key has counted; the zero time if it does not count.
func (s *ObjectSet) Since(key types.NamespacedName) time.Time { return s.since.Get(key) }
