package daemons_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
)

func keys(n int) []daemons.Key {
	all := make([]daemons.Key, n)
	for i := range all {
		all[i] = daemons.Key{UID: types.UID(fmt.Sprintf("%08d-0000-0000-0000-000000000000", i)), ID: "bench"}
	}
	return all
}

func nothing(context.Context, attempt) error { return nil }

// BenchmarkMemory measures the memory of a waiting timer, including its Timer value.
func BenchmarkMemory(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			all := keys(n)
			for range b.N {
				s := startSupervisor(b)
				before, goroutines := heapSize(), runtime.NumGoroutine()
				for _, k := range all {
					if err := s.Ensure(k, daemons.Task{
						Run: nothing, Kind: "bench", InitialDelay: time.Hour,
						Timer: &daemons.Timer{Interval: time.Hour, Sharp: true, Anchor: time.Now()},
					}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(heapSize()-before)/float64(n), "B/timer")
				b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "goroutines")
				runtime.KeepAlive(s)
			}
			runtime.KeepAlive(all)
		})
	}
}

// BenchmarkFiring measures an empty invocation in the presence of timers that are always due.
func BenchmarkFiring(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := startSupervisor(b)
			var calls atomic.Int64
			done := make(chan struct{})
			run := func(context.Context, attempt) error {
				if calls.Add(1) == int64(b.N) {
					close(done)
				}
				return nil
			}
			s.Pause()
			timer := &daemons.Timer{Interval: 1}
			for _, k := range keys(n) {
				if err := s.Ensure(k, daemons.Task{Run: run, Kind: "bench", Timer: timer}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			s.Resume()
			<-done
		})
	}
}

// BenchmarkDrift measures the delay of timers at about thirty times the intended rate.
func BenchmarkDrift(b *testing.B) {
	for _, n := range []int{10_000, 30_000} {
		b.Run(fmt.Sprintf("%d per second", n), func(b *testing.B) {
			for range b.N {
				s := startSupervisor(b)
				var mu sync.Mutex
				var late []time.Duration
				enough := make(chan struct{})
				begin := time.Now().Add(time.Second)
				for i, k := range keys(n) {
					anchor := begin.Add(time.Second * time.Duration(i) / time.Duration(n))
					if err := s.Ensure(k, daemons.Task{
						Kind: "bench", InitialDelay: time.Until(begin),
						Timer: &daemons.Timer{Interval: time.Second, Sharp: true, Anchor: anchor},
						Run: func(context.Context, attempt) error {
							off := time.Since(anchor) % time.Second
							mu.Lock()
							defer mu.Unlock()
							if late = append(late, off); len(late) == 3*n {
								close(enough)
							}
							return nil
						},
					}); err != nil {
						b.Fatal(err)
					}
				}
				<-enough
				mu.Lock()
				slices.Sort(late)
				b.ReportMetric(float64(late[len(late)/2].Microseconds()), "µs-p50")
				b.ReportMetric(float64(late[len(late)*99/100].Microseconds()), "µs-p99")
				mu.Unlock()
			}
		})
	}
}
