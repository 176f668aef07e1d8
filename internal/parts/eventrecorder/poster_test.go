package eventrecorder_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/eventrecorder"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// posted records Events and log lines.
type posted struct{ events, lines []string }

// Eventf implements [events.EventRecorder].
func (p *posted) Eventf(_, _ runtime.Object, eventType, reason, action, note string, args ...any) {
	p.events = append(p.events, fmt.Sprintf("%s %s %s: %s", eventType, reason, action, fmt.Sprintf(note, args...)))
}

// newPoster returns a poster for config maps, and what it records.
func newPoster() (*eventrecorder.Poster, *posted) {
	p := &posted{}
	logger := funcr.New(func(_, line string) { p.lines = append(p.lines, line) }, funcr.Options{Verbosity: 1})
	return &eventrecorder.Poster{
		Name: "configmap", GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Recorder: p,
		Limiter: eventrecorder.Limiter{AggregatesSeries: true, Burst: 20}, LoggerFor: func(client.Object) logr.Logger { return logger },
	}, p
}

func newObject() *corev1.ConfigMap {
	obj := &corev1.ConfigMap{}
	obj.Name, obj.UID, obj.ResourceVersion = "orders", "1", "7"
	return obj
}

// count returns the number of texts with a prefix.
func count(all []string, prefix string) (n int) {
	for _, one := range all {
		if strings.HasPrefix(one, prefix) {
			n++
		}
	}
	return n
}

// A handler that reports each of many children must not displace the Warnings of handlers, and these must not displace a permanent failure.
func TestPoster_Reserves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		poster, p := newPoster()
		notify := poster.NotifierFor(newObject())
		for n := range 50 {
			notify(nil, "Normal", "SuccessfulCreate", "Create", "created pod %d", n)
		}
		for n := range 50 {
			notify(nil, "Warning", "BackupFailed", "Backup", "disk %d is full", n)
		}
		poster.PostOutcome(newObject(), "backup", progress.Record{}, progress.Outcome{Final: true, Err: fmt.Errorf("no disk has room")})
		expect(t, "Normal Events", count(p.events, "Normal SuccessfulCreate"), 12)
		expect(t, "Warnings of the handler", count(p.events, "Warning BackupFailed"), 4)
		expect(t, "Events about the failure", count(p.events, "Warning HandlerFailed backup: backup: no disk has room (before this, 46 other"), 1)
		if t.Failed() {
			t.Log(p.events)
		}
	})
}

func TestPoster_NotesAreNotMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		poster, p := newPoster()
		notify := poster.NotifierFor(newObject())
		for _, pod := range []string{"a", "b", "a"} {
			notify(nil, "Normal", "Created", "Create", "created pod %s", pod)
		}
		long := strings.Repeat("x", 200)
		for n := range 2 {
			notify(nil, "Normal", "Created", long, "%d", n)
		}
		want := []string{"Normal Created Create: created pod a", "Normal Created Create (2): created pod b", "Normal Created Create: created pod a"}
		if len(p.events) != 5 || !slices.Equal(p.events[:3], want) {
			t.Fatalf("got %q, want %q and two more", p.events, want)
		}
		if action := strings.TrimSuffix(strings.TrimPrefix(p.events[4], "Normal Created "), ": 1"); len(action) != 128 || !strings.HasSuffix(action, " (2)") {
			t.Errorf("the long action is %q, want 128 bytes that end with the number", action)
		}
	})
}

func TestPoster_LogsTheFirstDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		poster, p := newPoster()
		notify := poster.NotifierFor(newObject())
		for n := range 15 {
			notify(nil, "Normal", "SuccessfulCreate", "Create", "created pod %d", n)
		}
		if len(p.lines) != 3 || !strings.Contains(p.lines[0], `"level"=0`) || !strings.Contains(p.lines[0], "created pod 12") {
			t.Fatalf("the log is %q, want three lines, the first one at level 0", p.lines)
		}
		for _, line := range p.lines[1:] {
			if !strings.Contains(line, `"level"=1`) {
				t.Errorf("got %q, want it at level 1", line)
			}
		}
	})
}
