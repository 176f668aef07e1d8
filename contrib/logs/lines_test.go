package logs_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/contrib/logs"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

const manyLines = 200

// cutLines is the number of lines in tests with a request for each byte of the log, whose time grows with the square of the bytes.
const cutLines = 45

// In one process, the stream ends or breaks after each byte of the log in turn.
func TestLines_HandleEachLineOnceWhileTheStreamBreaksAtEachByte(t *testing.T) {
	for name, breaks := range map[string]bool{"the connection breaks": true, "the response ends": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				entries := newEntries(cutLines)
				all := len(join(entries))
				k, got := newKubelet(), newRecorder()
				k.write("app", entries...)
				k.cut = func(request int) (int, bool) {
					if request > all {
						return -1, false
					}
					return request, breaks
				}
				clientset := apiServer(t, k)
				p := launch(t, memory(t, newPod("app")), logs.Lines(clientset, got.handle))
				got.wait(t, cutLines)
				for k.requestCount() < all {
					<-time.After(time.Minute)
				}
				p.stop(t, daemons.ErrShutdown)
				equal(t, name, got.texts(), textsOf(entries))
				t.Logf("%d bytes, %d requests", all, k.requestCount())
			})
		})
	}
}

// Each process has one break at another byte. The previous test has all bytes, so this one omits most.
func TestLines_HandleEachLineOnceAfterABreakAtAnyByte(t *testing.T) {
	entries := newEntries(cutLines)
	for at := range len(join(entries)) + 1 {
		if stride := map[bool]int{true: 97, false: 7}[testing.Short()]; at%stride != 0 {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			k, got := newKubelet(), newRecorder()
			k.write("app", entries...)
			k.cut = func(request int) (int, bool) {
				if request > 1 {
					return -1, false
				}
				return at, at%2 == 0
			}
			p := launch(t, memory(t, newPod("app")), logs.Lines(apiServer(t, k), got.handle))
			got.wait(t, cutLines)
			<-time.After(time.Second)
			p.stop(t, daemons.ErrShutdown)
			equal(t, "break", got.texts(), textsOf(entries))
		})
	}
}

var errKilled = errors.New("the process was killed")

// A crash is a moment at which a process ends without further writes.
type crash struct {
	moment string
	number int // of the line or the write
}

// After a kill at any line and at any write, the next process continues exactly after the bookmark.
func TestLines_ContinueAfterTheBookmarkAfterAKillAtAnyMoment(t *testing.T) {
	entries := newEntries(manyLines)
	want := textsOf(entries)
	run := func(t *testing.T, c crash) (writes int) {
		synctest.Test(t, func(t *testing.T) {
			stored := memory(t, newPod("app"))
			k := newKubelet()
			k.write("app", entries...)
			k.paced = true
			clientset := apiServer(t, k)
			var p *process
			var killed atomic.Bool
			kill := func() { killed.Store(true); p.cancel(daemons.ErrShutdown) }
			var handled []string
			bookmarked := 0
			started := make(chan struct{})
			failing := patchedClient{stored, func(ctx context.Context, obj client.Object, patch client.Patch) error {
				if killed.Load() {
					return errKilled
				}
				if writes++; c == (crash{"before write", writes}) {
					kill()
					return errKilled
				}
				if err := stored.Patch(ctx, obj, patch); err != nil {
					return err
				}
				if bookmarked = len(handled); c == (crash{"after write", writes}) {
					kill()
					return errKilled
				}
				return nil
			}}
			p = launch(t, failing, logs.Lines(clientset, func(_ context.Context, _ *kopf.Request[*corev1.Pod], line logs.Line) error {
				<-started
				if c == (crash{"before line", len(handled)}) {
					kill()
					return errKilled
				}
				if handled = append(handled, line.Text); c == (crash{"after line", len(handled)}) {
					kill()
				}
				return nil
			}, logs.Bookmark(2*time.Second)))
			close(started)
			select {
			case err := <-p.ended:
				if err != nil && !errors.Is(err, errKilled) {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				p.stop(t, daemons.ErrShutdown)
			}
			equal(t, "before the kill", handled, want[:len(handled)])

			got := newRecorder()
			p = launch(t, stored, logs.Lines(clientset, got.handle, logs.Bookmark(2*time.Second)))
			got.wait(t, manyLines-bookmarked)
			<-time.After(2 * time.Second)
			p.stop(t, daemons.ErrShutdown)
			equal(t, "after the kill", got.texts(), want[bookmarked:])
		})
		return writes
	}
	writes := run(t, crash{})
	if writes < 10 {
		t.Fatalf("%d writes without a kill, want at least 10", writes)
	}
	for number := 1; number <= writes; number++ {
		run(t, crash{"before write", number})
		run(t, crash{"after write", number})
	}
	for number := range manyLines {
		if testing.Short() && number%19 != 0 {
			continue
		}
		run(t, crash{"before line", number})
		run(t, crash{"after line", number + 1})
	}
}

func memory(t testing.TB, pod *corev1.Pod) client.Client {
	return kopftest.Memory(t, kopftest.Objects(pod)).Client
}
