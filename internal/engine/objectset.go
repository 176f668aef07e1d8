package engine

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// An objectSet is a set of one kind's objects whose size a gauge shows, such as the paused objects. The zero value is empty. It is safe for
// concurrent use.
type objectSet struct {
	since keyedMap[types.NamespacedName, time.Time]
}

// Note records whether the object with this key counts, and updates the gauge.
func (s *objectSet) Note(gauge prometheus.Gauge, key types.NamespacedName, counts bool) {
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
func (s *objectSet) Since(key types.NamespacedName) time.Time { return s.since.Get(key) }
