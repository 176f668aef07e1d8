package ring_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/ring"
)

// member returns a process of a ring with a fixed number of shards.
func (w *world) member(index, total int) *process {
	p := w.process(fmt.Sprintf("%d of %d", index, total))
	p.options.Name, p.options.Total = fmt.Sprintf("databases-%d", index), total
	return p
}

func TestAcquire_MembersOfARing(t *testing.T) {
	run(t, func(w *world) {
		began := time.Now()
		var stops []func() (time.Time, error)
		for index := range 3 {
			stops = append(stops, w.keep(w.acquire(w.member(index, 3))))
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("the processes wait %s for each other, want no time", waited)
		}
		for index, stop := range stops {
			stored, err := w.leases.Get(w.Context(), fmt.Sprintf("databases-%d", index), metav1.GetOptions{})
			if err != nil || stored.Labels[ring.TotalLabel] != "3" {
				t.Errorf("Lease %d = %v, %v, want the label with 3 shards", index, stored, err)
			}
			if _, err := stop(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestAcquire_FailsWhileAnotherTotalIsLive(t *testing.T) {
	run(t, func(w *world) {
		stop := w.keep(w.acquire(w.member(2, 3)))
		_, err := ring.AcquireLease(w.Context(), w.member(0, 2).options)
		want := `another process renews the Lease ns/databases-2 of the ring "databases" with 3 shards, but this process has 2: stop all processes`
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
		if _, err := w.leases.Get(w.Context(), "databases-0", metav1.GetOptions{}); err == nil {
			t.Error("the refused process has written a Lease")
		}
		if _, err := stop(); err != nil {
			t.Errorf("error of the first process = %v, want none", err)
		}
	})
}

func TestAcquire_AfterAResize(t *testing.T) {
	for name, c := range map[string]struct {
		released bool
		min, max time.Duration
	}{
		"after the release": {true, 0, 0},
		"after a crash":     {false, 15 * time.Second, 18 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				for index := range 3 {
					l := w.acquire(w.member(index, 3))
					if !c.released {
						continue
					}
					if err := l.Release(w.Context()); err != nil {
						t.Fatal(err)
					}
				}
				began := time.Now()
				w.acquire(w.member(0, 2))
				w.acquire(w.member(1, 2))
				if waited := time.Since(began); waited < c.min || waited > c.max {
					t.Errorf("waited %s, want %s to %s", waited, c.min, c.max)
				}
			})
		})
	}
}

// No process of the new ring has the name of the suspended one, so that no other process would take its Lease.
func TestAcquire_SuspendedProcessOfAnotherTotalLosesItsLease(t *testing.T) {
	run(t, func(w *world) {
		old := w.member(2, 3)
		stop := w.keep(w.acquire(old))
		old.stopped.Store(true)
		w.acquire(w.member(0, 2))
		old.stopped.Store(false)
		sleep(time.Minute)
		if _, err := stop(); !errors.Is(err, ring.ErrLost) {
			t.Errorf("Keep() of the suspended process = %v, want ErrLost", err)
		}
	})
}

// Processes of two rings start at the same time. Those that do not get their Leases fail, or wait until all others have ended.
func TestAcquire_TwoTotalsAtATime(t *testing.T) {
	for round := range 20 {
		run(t, func(w *world) {
			type acquired struct {
				total int
				stop  func() (time.Time, error)
				err   error
			}
			results := make(chan acquired)
			for _, total := range []int{2, 3, 4} {
				for index := total - 2; index < total; index++ {
					p := w.member(index, total)
					go func() {
						l, err := ring.AcquireLease(w.Context(), p.options)
						one := acquired{total: total, err: err}
						if err == nil {
							one.stop = w.keep(l)
						}
						results <- one
					}()
				}
			}
			totals := map[int]bool{}
			for range 6 {
				one := <-results
				if one.err == nil {
					totals[one.total] = true
					defer func() { _, _ = one.stop() }()
				}
			}
			if len(totals) > 1 {
				t.Errorf("round %d: processes with the totals %v run at the same time", round, totals)
			}
		})
	}
}
