package logs_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/contrib/logs"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// A fixture is an operator in memory with one pod.
type fixture struct {
	*kubelet
	*recorder
	clientset kubernetes.Interface
	cluster   *kopftest.Cluster
}

func newFixture(t testing.TB, pod *corev1.Pod) *fixture {
	k := newKubelet()
	return &fixture{k, newRecorder(), apiServer(t, k), kopftest.Memory(t, kopftest.Objects(pod))}
}

// run starts the operator.
func (f *fixture) run(t testing.TB, fn logs.Func, opts []logs.Option, daemon ...kopf.HandlerOption) *kopftest.Operator {
	return f.cluster.Run(t, kopf.For(&corev1.Pod{}).Daemon("lines", daemons.Daemon{}, logs.Lines(f.clientset, fn, opts...), daemon...), logs.Needs())
}

// setStatus sets the statuses of the containers.
func (f *fixture) setStatus(t testing.TB, change func(*corev1.PodStatus)) {
	t.Helper()
	kopftest.Edit(t, f.cluster, newPod(), func(pod *corev1.Pod) { change(&pod.Status) })
}

func (f *fixture) bookmark(t testing.TB) string {
	t.Helper()
	pod := newPod()
	f.cluster.Get(t, pod)
	return pod.Annotations["kopf-runtime.dev/logs.lines"]
}

func after(seconds int, text string) entry {
	return entry{start.Add(time.Duration(seconds) * time.Second), text}
}

func wait(d time.Duration) { <-time.After(d) }

func TestLines_ReadTheRestOfThePreviousLogFirst(t *testing.T) {
	for name, early := range map[string]bool{"the status shows the restart": false, "the status is late": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, newPod("app"))
				f.write("app", after(0, "a"), after(1, "b"))
				breaking := atomic.Bool{}
				f.cut = func(int) (int, bool) {
					if breaking.Load() {
						return 0, true
					}
					return -1, false
				}
				f.run(t, f.handle, nil)
				f.wait(t, 2)
				breaking.Store(true) // the stream cannot be opened again
				f.change(func() { f.mute = true })
				f.write("app", after(2, "c"), after(3, "d"))
				f.restart("app")
				f.write("app", after(4, "e"))
				wait(time.Minute)
				if !early {
					f.setStatus(t, func(s *corev1.PodStatus) { s.ContainerStatuses[0] = running("app", 1) })
					wait(time.Minute)
				}
				f.change(func() { f.mute = false })
				breaking.Store(false)
				f.wait(t, 5)
				f.setStatus(t, func(s *corev1.PodStatus) { s.ContainerStatuses[0] = running("app", 1) })
				f.write("app", after(500, "f"))
				f.wait(t, 6)
				wait(time.Minute)
				equal(t, name, f.texts(), []string{"a", "b", "c", "d", "e", "f"})
			})
		})
	}
}

// The new instance writes nothing, so only the status shows that the previous log has a rest.
func TestLines_ReadThePreviousLogAlthoughTheNewInstanceIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newPod("app"))
		f.write("app", after(0, "a"))
		f.run(t, f.handle, nil)
		f.wait(t, 1)
		f.kubelet.mu.Lock() // the open stream notices nothing
		f.logs["app"][0].entries = append(f.logs["app"][0].entries, after(1, "b"))
		f.logs["app"] = append(f.logs["app"], instanceLog{})
		f.kubelet.mu.Unlock()
		f.setStatus(t, func(s *corev1.PodStatus) { s.ContainerStatuses[0] = running("app", 1) })
		begin := time.Now()
		f.wait(t, 2)
		if waited := time.Since(begin); waited > 20*time.Second {
			t.Errorf("read after %s, want at most 20s", waited)
		}
		equal(t, "silent", f.texts(), []string{"a", "b"})
	})
}

func TestLines_ReopenAStalledStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newPod("app"))
		f.write("app", after(0, "a"))
		f.run(t, f.handle, nil)
		f.wait(t, 1)
		f.kubelet.mu.Lock()
		f.logs["app"][0].entries = append(f.logs["app"][0].entries, after(1, "b")) // the open stream does not notice it
		f.kubelet.mu.Unlock()
		begin := time.Now()
		f.wait(t, 2)
		if waited := time.Since(begin); waited < 9*time.Minute || waited > 11*time.Minute {
			t.Errorf("reopened after %s, want 10 minutes", waited)
		}
		equal(t, "stalled", f.texts(), []string{"a", "b"})
	})
}

func TestLines_EndWithThePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newPod("app", "side"))
		operator := f.run(t, f.handle, nil)
		f.write("app", after(0, "a"), after(1, "b"))
		f.write("side", after(0, "x"))
		f.wait(t, 3)
		f.change(func() {
			f.logs["app"][0].raw = after(2, "no line break").String()[:len(after(2, "no line break").String())-1]
		})
		f.end("app")
		f.end("side")
		f.setStatus(t, func(s *corev1.PodStatus) {
			s.Phase = corev1.PodSucceeded
			s.ContainerStatuses = []corev1.ContainerStatus{terminated("app", 0), terminated("side", 0)}
		})
		wait(time.Minute)
		got := f.texts()
		slices.Sort(got)
		equal(t, "end", got, []string{"a", "b", "no line break", "x"})
		requests := f.requestCount()
		wait(time.Hour)
		if now := f.requestCount(); now != requests {
			t.Errorf("got %d more requests after the end of the pod, want none", now-requests)
		}
		if pod := newPod(); f.bookmark(t) == "" {
			t.Error("the pod has no bookmark at the end of the daemon, want one")
		} else if f.cluster.Get(t, pod); len(pod.Finalizers) > 0 {
			t.Errorf("finalizers %q, want none after the daemon has ended", pod.Finalizers)
		}
		operator.Stop(t)
		f.run(t, f.handle, nil) // another process finds no new lines
		wait(time.Minute)
		if got := f.texts(); len(got) != 4 {
			t.Errorf("lines %q after a restart of the operator, want no new ones", got)
		}
	})
}

func TestLines_WaitForContainersOfAllKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newPod())
		f.run(t, f.handle, nil)
		wait(time.Minute)
		for i, name := range []string{"init", "app", "debug"} {
			f.setStatus(t, func(s *corev1.PodStatus) {
				list := []*[]corev1.ContainerStatus{&s.InitContainerStatuses, &s.ContainerStatuses, &s.EphemeralContainerStatuses}[i]
				*list = []corev1.ContainerStatus{{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}}
			})
			wait(time.Minute)
			f.write(name, after(60*i, name))
			f.setStatus(t, func(s *corev1.PodStatus) {
				(*[]*[]corev1.ContainerStatus{&s.InitContainerStatuses, &s.ContainerStatuses, &s.EphemeralContainerStatuses}[i])[0] = running(name, 0)
			})
			f.wait(t, i+1)
		}
		equal(t, "kinds", f.texts(), []string{"init", "app", "debug"})
	})
}

func TestLines_ReadTheLastLinesOfADeletedPod(t *testing.T) {
	for name, stops := range map[string]bool{"the containers stop": true, "the containers do not stop": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, newPod("app"))
				f.write("app", after(0, "a"))
				f.run(t, f.handle, nil)
				f.wait(t, 1)
				begin := time.Now()
				f.cluster.Delete(t, newPod())
				wait(2 * time.Second)
				f.write("app", after(1, "terminating"))
				if stops {
					f.end("app")
					f.setStatus(t, func(s *corev1.PodStatus) { s.ContainerStatuses[0] = terminated("app", 0) })
				}
				f.wait(t, 2)
				for f.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(newPod()), newPod()) == nil {
					wait(time.Second)
				}
				if waited, limit := time.Since(begin), map[bool]time.Duration{true: 5 * time.Second, false: 7 * time.Second}[stops]; waited > limit {
					t.Errorf("the pod was deleted after %s, want at most %s", waited, limit)
				}
				equal(t, "deleted", f.texts(), []string{"a", "terminating"})
			})
		})
	}
}

func TestLines_RetryALineAccordingToThePolicyOfTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newPod("app"))
		f.write("app", after(0, "a"), after(0, "b"), after(0, "c"))
		var attempts []time.Duration
		f.run(t, func(ctx context.Context, req *kopf.Request[*corev1.Pod], line logs.Line) error {
			if line.Text == "b" {
				if attempts = append(attempts, time.Since(start).Round(time.Second)); len(attempts) == 2 {
					panic("the second attempt")
				} else if len(attempts) < 4 {
					return errors.New("not yet")
				}
			}
			return f.handle(ctx, req, line)
		}, nil, kopf.Backoff(time.Minute))
		f.wait(t, 3)
		equal(t, "retried", f.texts(), []string{"a", "b", "c"})
		if want := []time.Duration{0, time.Minute, 2 * time.Minute, 3 * time.Minute}; !slices.Equal(attempts, want) {
			t.Errorf("attempts at %s, want %s", attempts, want)
		}
	})
}

// The function is slow, so the daemon reads only what its buffers can hold.
func TestLines_DoNotReadAheadOfASlowFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newPod("app"))
		for i := range 10_000 {
			f.write("app", entry{start.Add(time.Duration(i) * time.Millisecond), strings.Repeat("x", 1000)})
		}
		f.run(t, func(ctx context.Context, req *kopf.Request[*corev1.Pod], line logs.Line) error {
			select {
			case <-time.After(time.Hour):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			return f.handle(ctx, req, line)
		}, nil)
		f.wait(t, 3)
		f.kubelet.mu.Lock()
		defer f.kubelet.mu.Unlock()
		if f.sent > 300_000 || len(f.requests) != 1 {
			t.Errorf("the server has sent %d bytes in %d responses for 3 handled lines, want at most 300000 in 1", f.sent, len(f.requests))
		}
	})
}

func TestLines_CutLongLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newPod("app"))
		for i, length := range []int{logs.MaxText - 1, logs.MaxText, logs.MaxText + 1, 10 * logs.MaxText, 0} {
			f.write("app", after(i, strings.Repeat("x", length)))
		}
		f.change(func() { f.logs["app"][0].raw = "a message of the kubelet" })
		f.run(t, f.handle, nil)
		f.wait(t, 5)
		for i, want := range []logs.Line{
			{Text: strings.Repeat("x", logs.MaxText-1)}, {Text: strings.Repeat("x", logs.MaxText)}, {Text: strings.Repeat("x", logs.MaxText), Truncated: true},
			{Text: strings.Repeat("x", logs.MaxText), Truncated: true}, {},
		} {
			want.Container, want.Time = "app", after(i, "").time
			if got := f.lines[i]; got != want {
				t.Errorf("line %d has %d bytes, truncated %t, time %s, container %q, want %d bytes, truncated %t, time %s, container %q",
					i, len(got.Text), got.Truncated, got.Time, got.Container, len(want.Text), want.Truncated, want.Time, want.Container)
			}
		}
	})
}

func TestLines_SelectLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait(time.Hour)
		f := newFixture(t, newPod("app", "side"))
		f.write("side", after(3600, "error: side"))
		f.write("app", after(3600-301, "error: old"), after(3600-299, "error: recent"), after(3600, "fine"))
		operator := f.run(t, f.handle, []logs.Option{logs.Match(regexp.MustCompile("^error")), logs.Containers("app"), logs.Since(5 * time.Minute)})
		f.wait(t, 1)
		operator.Stop(t)
		f.write("app", after(3601, "error: while the operator was stopped"))
		wait(time.Hour) // longer than Since
		f.run(t, f.handle, []logs.Option{logs.Match(regexp.MustCompile("^error")), logs.Containers("app"), logs.Since(5 * time.Minute)})
		f.wait(t, 2)
		wait(time.Minute)
		equal(t, "selected", f.texts(), []string{"error: recent", "error: while the operator was stopped"})
	})
}

func TestLines_WriteTheBookmarkAtMostOncePerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newPod("app"))
		f.write("app", newEntries(300)...) // 40 seconds
		f.paced = true
		var writes []time.Time
		c := patchedClient{f.cluster.Client, func(ctx context.Context, obj client.Object, patch client.Patch) error {
			writes = append(writes, time.Now())
			return f.cluster.Client.Patch(ctx, obj, patch)
		}}
		p := launch(t, c, logs.Lines(f.clientset, f.handle, logs.Bookmark(10*time.Second)))
		f.wait(t, 300)
		wait(time.Hour) // the position does not change
		synctest.Wait()
		if len(writes) < 4 || len(writes) > 6 {
			t.Errorf("%d writes in 40 seconds with changes, want one per 10 seconds", len(writes))
		}
		for i := range writes[1:] {
			if gap := writes[i+1].Sub(writes[i]); gap < 10*time.Second {
				t.Errorf("%s between two writes, want at least 10s", gap)
			}
		}
		f.write("app", entry{time.Now().UTC(), "last"})
		f.wait(t, 301)
		p.stop(t, daemons.ErrShutdown)
		if text := f.bookmark(t); !strings.Contains(text, f.lines[300].Time.Format(time.RFC3339Nano)) {
			t.Errorf("bookmark %s at the end, want one with the last line", text)
		}
	})
}

// The kubelet has rotated the file with the last handled line.
func TestLines_ContinueAfterARotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newPod("app"))
		f.write("app", newEntries(30)...)
		first := launch(t, f.cluster.Client, logs.Lines(f.clientset, f.handle))
		f.wait(t, 30)
		first.stop(t, daemons.ErrShutdown)
		f.change(func() { f.logs["app"][0].entries = []entry{after(4, "new 1"), after(5, "new 2")} })
		second := launch(t, f.cluster.Client, logs.Lines(f.clientset, f.handle))
		f.wait(t, 32)
		second.stop(t, daemons.ErrShutdown)
		equal(t, "rotated", f.texts()[30:], []string{"new 1", "new 2"})
	})
}

// A pause lets another operator handle lines and write a newer bookmark.
func TestLines_ContinueAfterTheBookmarkOfAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, newPod("app"))
		f.write("app", newEntries(30)...)
		daemon := logs.Lines(f.clientset, f.handle)
		ctx := kopftest.Context(t)
		run := func(n int) {
			pod := newPod()
			f.cluster.Get(t, pod)
			ctx, cancel := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() {
				ended <- daemon(ctx, &kopf.Request[*corev1.Pod]{Object: pod, Handler: "lines", Client: f.cluster.Client})
			}()
			f.wait(t, n)
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		run(30)
		f.write("app", newEntries(60)[30:]...)
		other := launch(t, f.cluster.Client, logs.Lines(f.clientset, f.handle))
		f.wait(t, 60)
		other.stop(t, daemons.ErrPaused)
		f.write("app", newEntries(90)[60:]...)
		run(90)
		wait(time.Second)
		equal(t, "paused", f.texts(), textsOf(slices.Concat(newEntries(30), newEntries(60)[30:], newEntries(90)[60:])))
	})
}

func TestLines_ReportAllInvalidArguments(t *testing.T) {
	daemon := logs.Lines((*kubernetes.Clientset)(nil), nil, nil, logs.Match(nil), logs.Containers(), logs.Containers("a", ""), logs.Since(-time.Second),
		logs.Since(5), logs.Bookmark(0), logs.Bookmark(30))
	got := kopftest.Invoke(t, daemon, newPod("app"))
	if got.Outcome.Err == nil || !got.Outcome.Final {
		t.Fatalf("error %v, final %t, want a permanent error", got.Outcome.Err, got.Outcome.Final)
	}
	for _, want := range []string{
		"the clientset is nil: pass", "the function is nil: pass", "Match is nil: pass", "Containers has no names: pass", "Containers has an empty name: pass",
		"Since must not be negative, got -1s", "Since is 5ns; durations need a unit", "Bookmark must be positive, got 0s: remove", "Bookmark is 30ns; durations need a unit",
	} {
		if !strings.Contains(got.Outcome.Err.Error(), want) {
			t.Errorf("the error does not contain %q: %v", want, got.Outcome.Err)
		}
	}
	if err := kopftest.Invoke(t, logs.Lines(nil, newRecorder().handle), newPod("app")).Outcome.Err; err == nil || strings.Count(err.Error(), "\n") > 0 {
		t.Errorf("error %v for a nil clientset, want one mistake", err)
	}
}
