package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	framework "github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A running is a command that runs in the background.
type running struct {
	lines     *bufio.Scanner
	interrupt context.CancelCauseFunc
	ended     chan error
}

func start(t *testing.T, args ...string) *running {
	t.Helper()
	reader, writer := io.Pipe()
	ctx, interrupt := context.WithCancelCause(t.Context())
	r := &running{lines: bufio.NewScanner(reader), interrupt: interrupt, ended: make(chan error, 1)}
	root := newRoot("kopf")
	root.SetOut(writer)
	root.SetErr(io.Discard)
	root.SetArgs(args)
	go func() {
		r.ended <- root.ExecuteContext(ctx)
		_ = writer.Close() // it cannot fail
	}()
	return r
}

// next fails the test if the next line does not end with a text.
func (r *running) next(t *testing.T, end string) {
	t.Helper()
	if !r.lines.Scan() {
		t.Fatalf("the command has ended with error %v, want a line %q", <-r.ended, end)
	}
	stamp, rest, _ := strings.Cut(r.lines.Text(), " ")
	if _, err := time.Parse(time.RFC3339, stamp); err != nil || rest != end {
		t.Errorf("got line %q, want a time and %q", r.lines.Text(), end)
	}
}

// end fails the test if the command prints another line, or ends with an error.
func (r *running) end(t *testing.T) {
	t.Helper()
	for r.lines.Scan() {
		t.Errorf("got line %q, want no more lines", r.lines.Text())
	}
	must(t, <-r.ended)
}

func TestWatch(t *testing.T) {
	config, k8s := startCluster(t)
	stamp := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339) // a record with a delay of more than 30 days is due at once
	record := func(retries int, rest string) string {
		return fmt.Sprintf(`{"started":"2026-05-01T12:00:00Z","purpose":"create","retries":%d,%s}`, retries, rest)
	}
	waiting := `"delayed":"` + stamp + `","success":false,"failure":false,"message":"no\n\u001b[2Jdisk"`
	annotate := func(name, text string) {
		t.Helper()
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":`+text+`}}`))
		must(t, k8s.Patch(t.Context(), sample(name, nil), patch))
	}
	remove := func(name string) {
		t.Helper()
		must(t, k8s.Patch(t.Context(), sample(name, nil), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
		must(t, client.IgnoreNotFound(k8s.Delete(t.Context(), sample(name, nil))))
	}

	// Without a terminal, the command prints one line for each change. Ctrl-C ends it without an error.
	must(t, k8s.Create(t.Context(), sample("orders", map[string]string{"kopf.zalando.org/provision": record(1, waiting)})))
	all := start(t, "watch", kind, "-A")
	all.next(t, `default/orders create provision waiting attempts=1 due=`+stamp+` no \x1b[2Jdisk`)
	annotate("orders", `{"example.com/other":"changed"}`) // this change prints nothing
	annotate("orders", fmt.Sprintf(`{"kopf.zalando.org/provision":%q}`, record(2, `"success":false,"failure":false`)))
	all.next(t, `default/orders create provision due attempts=2`)
	annotate("orders", fmt.Sprintf(`{"kopf.zalando.org/provision":%q,"kopf.zalando.org/announce":%q}`,
		record(3, `"success":true,"failure":false`), record(1, `"success":false,"failure":true,"message":"no channel"`)))
	all.next(t, `default/orders create announce failed attempts=1 no channel`)
	all.next(t, `default/orders create provision finished attempts=2`)

	// --until-quiet ends when the operator has handled the last object.
	quiet := start(t, "watch", kind, "--until-quiet", "--failing", "--for", "30s")
	quiet.next(t, `default/orders create announce failed attempts=1 no channel`)
	annotate("orders", fmt.Sprintf(`{"example.com/other":null,"kopf.zalando.org/provision":null,"kopf.zalando.org/announce":null,%q:%q}`, baseline, handled))
	quiet.next(t, `default/orders create announce finished attempts=1`)
	quiet.end(t)
	all.next(t, `default/orders create announce finished attempts=1`)

	// An object that no operator has handled counts only with --new.
	unseen := sample("unseen", nil)
	unseen.SetFinalizers(nil)
	must(t, k8s.Create(t.Context(), unseen))
	start(t, "watch", kind, "--until-quiet").end(t)
	fails(t, "1 objects have unfinished handlers after 1s", "watch", kind, "--until-quiet", "--new", "--for", "1s")
	start(t, "watch", kind, "--until-quiet", "--new", "-l", "tier=gold").end(t)
	remove("unseen")

	annotate("orders", fmt.Sprintf(`{"kopf.zalando.org/resize":%q}`, record(1, waiting)))
	all.next(t, `default/orders create resize waiting attempts=1 due=`+stamp+` no \x1b[2Jdisk`)
	remove("orders")
	all.next(t, `default/orders create resize deleted attempts=1`)
	all.interrupt(errors.New("interrupt signal received")) // as signal.NotifyContext does
	all.end(t)

	testWatchInterrupted(t, config, k8s)

	fails(t, `the API server has no kind "tables"`, "watch", "tables")
	fails(t, "have no namespace: remove --namespace", "watch", "namespaces", "-n", "x")
	fails(t, "watch the objects: ", "watch", "tokenreviews.authentication.k8s.io")
}

// After an interrupted connection, the command continues, also if the API server does not have the missed changes any more.
func testWatchInterrupted(t *testing.T, config *rest.Config, k8s client.Client) {
	target, err := url.Parse(config.Host)
	must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval, proxy.ErrorLog = -1, log.New(io.Discard, "", 0)
	proxy.Transport, err = rest.TransportFor(config)
	must(t, err)
	var expired atomic.Bool
	cut := make(chan struct{}) // closed to allow watches again
	close(cut)
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" {
			mu.Lock()
			allowed := cut
			mu.Unlock()
			<-allowed
			if expired.CompareAndSwap(true, false) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusGone)
				_ = json.NewEncoder(w).Encode(apierrors.NewResourceExpired("too old").Status())
				return
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	kubeconfig(t, &rest.Config{Host: server.URL})

	record := recordOf("create", 2, never, never, 3, false, "no disk")
	must(t, k8s.Create(t.Context(), sample("first", map[string]string{"kopf.zalando.org/a": record})))
	watch := start(t, "watch", kind)
	watch.next(t, "default/first create a failed attempts=2 no disk")
	for n, gone := range []bool{false, true} {
		allow := make(chan struct{})
		mu.Lock()
		cut = allow
		mu.Unlock()
		expired.Store(gone)
		server.CloseClientConnections()
		name := fmt.Sprint("next-", n)
		must(t, k8s.Create(t.Context(), sample(name, map[string]string{"kopf.zalando.org/a": record})))
		if gone {
			first := sample("first", nil)
			must(t, k8s.Patch(t.Context(), first, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
			must(t, k8s.Delete(t.Context(), first))
		}
		close(allow)
		lines := map[string]bool{"default/" + name + " create a failed attempts=2 no disk": true}
		if gone {
			lines["default/first create a deleted attempts=2"] = true
		}
		for len(lines) > 0 {
			if !watch.lines.Scan() {
				t.Fatalf("the command has ended with error %v, want the lines %v", <-watch.ended, lines)
			}
			_, line, _ := strings.Cut(watch.lines.Text(), " ")
			if !lines[line] {
				t.Fatalf("got line %q, want one of %v", line, lines)
			}
			delete(lines, line)
		}
	}
	watch.interrupt(nil)
	watch.end(t)
	if expired.Load() {
		t.Error("the API server has not rejected a watch")
	}
}

// The flags select the rows, and not the objects that --until-quiet waits for.
func TestWatch_SelectsRows(t *testing.T) {
	obj := sample("orders", map[string]string{
		baseline:                    handled,
		"kopf.zalando.org/busy":     recordOf("update", 2, 8, 14, never, false, "busy"),
		"kopf.zalando.org/delayed":  recordOf("update", 2, 8, 14, never, false, ""),
		"kopf.zalando.org/due":      recordOf("update", 2, never, never, never, false, ""),
		"kopf.zalando.org/failed":   recordOf("update", 2, never, never, 3, false, "no"),
		"kopf.zalando.org/finished": recordOf("update", 2, never, never, 3, true, ""),
	})
	for want, w := range map[string]watcher{
		"busy delayed due failed": {}, "busy delayed": {waiting: true}, "busy failed": {failing: true}, "busy delayed failed": {waiting: true, failing: true},
	} {
		w.look = inspector{storage: storage{finalizer: framework.DefaultFinalizer, prefix: progress.DefaultPrefix}, now: watchNow}
		found := w.look.inspect(obj)
		rows, unfinished := w.rowsOf(&found, true)
		for id := range rows {
			if !strings.Contains(want, id) {
				t.Errorf("%q: got the row %s", want, id)
			}
		}
		if len(rows) != len(strings.Fields(want)) || !unfinished {
			t.Errorf("got %d rows and unfinished = %v, want %q and true", len(rows), unfinished, want)
		}
	}
	for want, obj := range map[bool]*unstructured.Unstructured{true: sample("a", nil), false: sample("a", map[string]string{baseline: handled})} {
		var w watcher
		w.look = inspector{storage: storage{finalizer: framework.DefaultFinalizer, prefix: progress.DefaultPrefix}, now: watchNow}
		found := w.look.inspect(obj)
		if rows, unfinished := w.rowsOf(&found, false); unfinished != want || len(rows) > 0 != want {
			t.Errorf("got %v and unfinished = %v, want %v", rows, unfinished, want)
		}
	}
}

// On a terminal, the command replaces the screen, and cuts the table to its size.
func TestWatch_DrawsOnATerminal(t *testing.T) {
	if got, want := screen("HEAD\nrow 1\nrow 2\n", "summary", 5, 24), "\x1b[Hsumma\x1b[K\nHEAD\x1b[K\nrow 1\x1b[K\nrow 2\x1b[K\n\x1b[J"; got != want {
		t.Errorf("got screen %q, want %q", got, want)
	}
	if got := screen("HEAD\nrow 1\nrow 2\n", "summary", 80, 4); strings.Count(got, "\n") != 3 || !strings.Contains(got, "(1 rows are hidden") || strings.Contains(got, "row 2") {
		t.Errorf("got screen %q, want three lines with a message", got)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "terminal"))
	must(t, err)
	w := watcher{terminal: file, look: inspector{storage: storage{finalizer: framework.DefaultFinalizer, prefix: progress.DefaultPrefix}}}
	w.reset()
	w.update(watchEvent{object: sample("orders", map[string]string{"kopf.zalando.org/busy": recordOf("\x1b[31m", 2, 8, 14, never, false, "no\x1b[2J\ndisk")})})
	w.draw()
	must(t, file.Close())
	text, err := os.ReadFile(file.Name())
	must(t, err)
	s := strings.NewReplacer("\x1b[K\n", "\n", "\x1b[J", "").Replace(string(text))
	if s, found := strings.CutPrefix(s, "\x1b[H1 objects with unfinished handlers at "); !found || strings.Contains(s, "\x1b") || !strings.Contains(s, "orders") {
		t.Errorf("got screen %q, want the object without control characters", text)
	}
}

var watchNow = time.Date(2026, 5, 1, 12, 10, 0, 0, time.UTC)

const never = -1

// recordOf returns a record with times in minutes after 12:00.
func recordOf(purpose string, started, attempted, delayed, stopped float64, success bool, message string) string {
	at := func(minutes float64) time.Time {
		if minutes < 0 {
			return time.Time{}
		}
		return watchNow.Add(time.Duration((minutes - 10) * float64(time.Minute)))
	}
	record := progress.Record{
		Started: at(started), Attempted: at(attempted), Delayed: at(delayed), Stopped: at(stopped), Purpose: purpose, Retries: 2,
		Success: success, Failure: !success && stopped >= 0, Message: message,
	}
	text, err := record.MarshalJSON()
	if err != nil {
		panic(err)
	}
	return string(text)
}
