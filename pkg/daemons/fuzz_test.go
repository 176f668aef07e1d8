package daemons_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// FuzzSupervisor calls random methods of a supervisor and checks the invariants after each call.
func FuzzSupervisor(f *testing.F) {
	chance := rand.New(rand.NewPCG(1, 2))
	for range 150 {
		script := make([]byte, 150)
		for i := range script {
			script[i] = byte(chance.Uint32())
		}
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		runTest(t, daemons.Options{}, func(s *supervisorTest) {
			g := &fuzzRun{supervisorTest: s, script: script[:min(len(script), 200)], running: map[daemons.Key]int{}, touched: map[types.UID]time.Time{}}
			for len(g.script) > 0 && !t.Failed() {
				g.step()
				synctest.Wait()
				g.check()
			}
			g.finish()
		})
		for _, gauge := range []float64{
			metricValue(t, metrics.Daemons.WithLabelValues("game", "game")), metricValue(t, metrics.Timers.WithLabelValues("game", "game")),
			metricValue(t, metrics.TimersDue.WithLabelValues("game", "game")), metricValue(t, metrics.BackgroundUnstopped.WithLabelValues("game", "game")),
		} {
			if gauge != 0 {
				t.Errorf("final value of a gauge = %v, want 0", gauge)
			}
		}
	})
}

// fuzzRun is a supervisorTest that a script controls.
type fuzzRun struct {
	*supervisorTest
	script  []byte
	moves   []string
	running map[daemons.Key]int
	paused  bool
	touched map[types.UID]time.Time
}

// draw returns a number below n from the script.
func (g *fuzzRun) draw(n int) int {
	if len(g.script) == 0 {
		return 0
	}
	drawn := int(g.script[0]) % n
	g.script = g.script[1:]
	return drawn
}

func (g *fuzzRun) step() {
	k := daemons.Key{UID: types.UID(fmt.Sprint("uid-", g.draw(3))), ID: fmt.Sprint("id-", g.draw(3))}
	switch what := g.draw(16); what {
	case 0, 1, 2, 3, 4:
		g.logStepf("ensure %v", k)
		if err := g.Ensure(k, g.randomTask(k)); err != nil {
			g.Error(err)
		}
	case 5:
		g.logStepf("stop %v", k)
		g.Stop(k, daemons.ErrFilteredOut)
	case 6:
		g.logStepf("stop all of %s", k.UID)
		g.StopAll(k.UID, daemons.ErrDeleted)
	case 7, 8:
		g.logStepf("touch %s", k.UID)
		g.mu.Lock()
		g.touched[k.UID] = time.Now()
		g.mu.Unlock()
		g.Touch(k.UID)
	case 9:
		g.logStepf("pause")
		g.Pause()
		g.mu.Lock()
		g.paused = true
		g.mu.Unlock()
	case 10:
		g.logStepf("resume")
		g.mu.Lock()
		g.paused = false
		g.mu.Unlock()
		g.Resume()
	case 11:
		g.logStepf("forget %s", k.UID)
		g.Forget(k.UID)
	default:
		d := []time.Duration{time.Millisecond, time.Second, 7 * time.Second, time.Minute, time.Hour}[g.draw(5)]
		g.logStepf("%s pass", d)
		<-time.After(d)
	}
}

func (g *fuzzRun) logStepf(format string, args ...any) {
	g.moves = append(g.moves, fmt.Sprintf(format, args...))
}

// randomTask returns a random daemon or timer with a random function.
func (g *fuzzRun) randomTask(k daemons.Key) daemons.Task {
	seconds := func(n ...int) time.Duration { return time.Duration(n[g.draw(len(n))]) * time.Second }
	task := daemons.Task{Kind: "game", Label: "game", InitialDelay: seconds(0, 0, 0, 5)}
	switch g.draw(6) {
	case 0:
		task.Timer = &daemons.Timer{Interval: seconds(5, 60, 300), MaxParallel: 2, Group: "plain"}
	case 1:
		task.Timer = &daemons.Timer{Interval: seconds(10, 60, 300), Sharp: true, Anchor: epoch.Add(seconds(0, 1)), Idle: seconds(0, 20), MaxParallel: 1, Group: "sharp"}
	case 2:
		task.Timer = &daemons.Timer{Idle: seconds(1, 20), MaxParallel: 1, Group: "idle"}
	case 3:
		task.Timer = &daemons.Timer{Schedule: minutely, Idle: seconds(0, 20), Jitter: 0.1, Last: epoch}
	default:
		task.Restart = daemons.RestartPolicy(g.draw(3))
		if g.draw(2) == 0 {
			task.CancellationBackoff = new(seconds(0, 3))
		}
		if g.draw(2) == 0 {
			task.CancellationTimeout = new(seconds(0, 5))
		}
	}
	idle := time.Duration(0)
	if task.Timer != nil {
		idle = task.Timer.Idle
	}
	ends, takes, result := g.draw(2) == 0, seconds(0, 0, 1, 10, 3600), g.draw(6)
	task.Run = func(ctx context.Context, _ attempt) error {
		g.trackStart(k, idle)
		defer g.trackEnd(k)
		switch {
		case ends:
			<-time.After(takes) // the function ignores its context
		case task.Timer == nil:
			<-ctx.Done()
		default:
			select {
			case <-time.After(takes):
			case <-ctx.Done():
			}
		}
		switch result {
		case 0:
			return errBoom
		case 1:
			return progress.Temporary(errBoom, 20*time.Second)
		case 2:
			return progress.Permanent(errBoom)
		case 3:
			panic("boom")
		default:
			return context.Cause(ctx)
		}
	}
	return task
}

func (g *fuzzRun) trackStart(k daemons.Key, idle time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running[k]++; g.running[k] > 1 {
		g.Errorf("DAE-02 TIM-16: two concurrent runs of %v after %q", k, g.moves)
	}
	if g.paused {
		g.Errorf("DAE-40: %v started during a pause after %q", k, g.moves)
	}
	if since := time.Since(g.touched[k.UID]); since > 0 && since < idle {
		g.Errorf("TIM-05: %v started %s after a touch, steps: %q", k, since, g.moves)
	}
}

func (g *fuzzRun) trackEnd(k daemons.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running[k]--
}

func (g *fuzzRun) check() {
	if wrong := daemons.Invariants(g.Supervisor); wrong != nil {
		g.Errorf("violated invariants %q after the steps %q", wrong, g.moves)
	}
}

// finish ends all runs and checks that only runs that ignore their contexts remain.
func (g *fuzzRun) finish() {
	for _, uid := range []types.UID{"uid-0", "uid-1", "uid-2"} {
		g.Forget(uid)
		if err := g.Wait(g.Context(), uid); err != nil {
			g.Error(err)
		}
		g.equal("busy", g.Busy(uid), false)
	}
	advance(2 * time.Hour)
	g.check()
	g.equal("number of remaining jobs", daemons.Jobs(g.Supervisor), 0)
}
