package promotion_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/promotion"
)

// A load keeps the workers of a queue busy with edits while a listing waits.
type load struct {
	workers, listed, editors int
	// takes is for how long a worker is busy with a listed object, edits with an edited one.
	takes, edits time.Duration
}

// The result of a load.
type outcome struct {
	listing time.Duration   // until all listed objects have been handled
	waited  []time.Duration // edits, sorted
	passes  int
}

func (o outcome) p99() time.Duration { return o.waited[len(o.waited)*99/100] }

// play runs the load until the listing is handled, or for a day. Every editor edits an object anew as soon as it was handled.
func (l load) play(t *testing.T) (result outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		keys := objectstate.New[struct{}](objectstate.Options{})
		promoter := promotion.New(keys, func() {})
		queue := priorityqueue.New[reconcile.Request](t.Name())
		began := time.Now()
		add := func(name string, priority int) {
			key := types.NamespacedName{Name: name}
			keys.MarkQueued(key)
			queue.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, reconcile.Request{NamespacedName: key})
		}
		if err := promoter.For(l.workers).Start(ctx, queue); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		since, left := map[string]time.Time{}, l.listed
		edit := func(name string) {
			mu.Lock()
			since[name] = time.Now()
			mu.Unlock()
			add(name, 0)
		}
		handled := make(chan struct{})
		var group sync.WaitGroup
		for range l.workers {
			group.Go(func() {
				for {
					req, shutdown := queue.Get()
					if shutdown {
						return
					}
					edited := strings.HasPrefix(req.Name, "edited")
					mu.Lock()
					result.passes++
					if edited {
						result.waited = append(result.waited, time.Since(since[req.Name]))
					}
					mu.Unlock()
					keys.MarkStarted(req.NamespacedName)
					promoter.Begin(req.NamespacedName)
					began := time.Now()
					if edited {
						<-time.After(l.edits)
					} else {
						<-time.After(l.takes)
					}
					promoter.End(req.NamespacedName, time.Since(began))
					queue.Done(req)
					if edited {
						edit(req.Name)
						continue
					}
					mu.Lock()
					if left--; left == 0 {
						close(handled)
					}
					mu.Unlock()
				}
			})
		}
		for i := range l.editors {
			edit(fmt.Sprint("edited-", i))
		}
		for i := range l.listed {
			add(fmt.Sprint("listed-", i), handler.LowPriority)
		}
		select {
		case <-handled:
		case <-time.After(24 * time.Hour):
			t.Errorf("%d of %d listed objects are left after a day, want none", left, l.listed)
		}
		result.listing = time.Since(began)
		stop()
		queue.ShutDown()
		group.Wait()
	})
	slices.Sort(result.waited)
	return result
}

// The objects of the first listing get a quarter of what the workers do, and edits the rest.
func TestPromoter_ShareOfTheFirstListing(t *testing.T) {
	for name, l := range map[string]load{
		"fast handlers":                       {workers: 16, listed: 10_000, editors: 32, takes: 10 * time.Millisecond, edits: 10 * time.Millisecond},
		"slow handlers":                       {workers: 16, listed: 2_000, editors: 32, takes: time.Second, edits: time.Second},
		"one worker":                          {workers: 1, listed: 1000, editors: 4, takes: 100 * time.Millisecond, edits: 100 * time.Millisecond},
		"a number that four does not divide":  {workers: 6, listed: 1000, editors: 12, takes: 100 * time.Millisecond, edits: 100 * time.Millisecond},
		"listed objects that take longer":     {workers: 8, listed: 100, editors: 16, takes: 30 * time.Second, edits: 100 * time.Millisecond},
		"one worker, listed ones take longer": {workers: 1, listed: 50, editors: 2, takes: time.Second, edits: 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			result := l.play(t)
			// All work of the listing, done by a quarter of the workers; a tenth more, and the time until the first are promoted.
			bound := 5*time.Second + 2*time.Second + time.Duration(float64(l.listed)*l.takes.Seconds()/float64(l.workers)*4*1.1*float64(time.Second))
			if result.listing > bound {
				t.Errorf("the listing has taken %s, want at most %s", result.listing, bound)
			}
			// With three quarters of the workers, each editor waits for the others, and at the worst for listed ones that have just begun.
			alone := time.Duration(float64(l.editors) / float64(l.workers) * float64(l.edits))
			most := 2*alone*4/3 + l.edits
			if l.workers < 4 {
				most += l.takes
			}
			if p99 := result.p99(); p99 > most {
				t.Errorf("edits have waited for %s (p99), want at most %s", p99, most)
			}
			t.Logf("%d listed objects in %s; %d edits, p50 %s, p99 %s", l.listed, result.listing, len(result.waited), result.waited[len(result.waited)/2], result.p99())
		})
	}
}
