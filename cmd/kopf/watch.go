package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// redrawInterval is the time between two drawings of the table on a terminal.
const redrawInterval = 500 * time.Millisecond

func newWatch() *cobra.Command {
	var which selection
	var w watcher
	cmd := &cobra.Command{
		Use:   "watch KIND",
		Short: "Watch the unfinished handlers of objects",
		Long: `Show the handlers that have not finished, and those that have failed in the current cycle, while they change. On a terminal, the command redraws a
table. Otherwise, it prints one line for each change. The command ends with Ctrl-C, after --for, or, with
--until-quiet, when no object has unfinished handlers.

An object has unfinished handlers if one of its records is unfinished. It also has unfinished handlers if it has an unhandled change, and the finalizer
or the last-handled configuration of an operator. For other objects with an unhandled change, the command cannot know whether an operator handles them.
They count only with --new. --waiting and --failing restrict the output, but not --until-quiet.`,
		Example: `  # Follow the operator:
  kopf watch databases.example.com -A
  # Only handlers with errors:
  kopf watch databases.example.com -A --failing
  # In a script, wait until the operator has handled all objects:
  kubectl apply -f databases.yaml
  kopf watch databases.example.com --new --until-quiet --for 5m`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("for") && w.limit <= 0 {
				return fmt.Errorf("--for must be positive, got %s", w.limit)
			}
			if err := w.look.check(); err != nil {
				return err
			}
			t, err := which.open(args)
			if err != nil {
				return err
			}
			w.out, w.errors = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if file, ok := w.out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
				w.terminal = file
			}
			return w.run(cmd.Context(), t)
		},
	}
	which.bind(cmd.Flags())
	w.look.bind(cmd.Flags())
	cmd.Flags().BoolVar(&w.waiting, "waiting", false, "show only handlers that wait for their next attempt")
	cmd.Flags().BoolVar(&w.failing, "failing", false, "show only handlers with an error; with --waiting, show both")
	cmd.Flags().BoolVar(&w.unseen, "new", false, "count objects that no operator has handled yet as objects with unfinished handlers")
	cmd.Flags().BoolVar(&w.untilQuiet, "until-quiet", false, "end when no object has unfinished handlers; with --for, fail if that takes longer")
	cmd.Flags().DurationVar(&w.limit, "for", 0, "end after this duration, such as 10m")
	return cmd
}

// A watcher shows the unfinished handlers of objects.
type watcher struct {
	look                                 inspector
	waiting, failing, unseen, untilQuiet bool
	limit                                time.Duration
	out, errors                          io.Writer
	terminal                             *os.File // nil if the output is not a terminal

	rows       map[cache.ObjectName]map[string]watchRow // by object and handler
	unfinished map[cache.ObjectName]bool
}

// A watchRow is a handler of an object, or an object with a cause whose handlers have not begun.
type watchRow struct{ cause, handler, state, attempts, due, message string }

// A watchEvent is a new state of an object, or its deletion.
type watchEvent struct {
	object  *unstructured.Unstructured
	deleted bool
}

func (w *watcher) reset() {
	w.rows, w.unfinished = map[cache.ObjectName]map[string]watchRow{}, map[cache.ObjectName]bool{}
}

func (w *watcher) run(ctx context.Context, t *target) error {
	w.reset()
	dynamicClient, err := dynamic.NewForConfig(t.config)
	if err != nil {
		return err
	}
	informer := dynamicinformer.NewFilteredDynamicInformer(dynamicClient, t.mapping.Resource, t.namespace, 0, nil, func(options *metav1.ListOptions) {
		options.LabelSelector = t.labels.String()
	}).Informer()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { w.watchError(err, failed) }); err != nil {
		return err
	}
	events := make(chan watchEvent)
	send := func(obj any, deleted bool) {
		if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		if u, ok := obj.(*unstructured.Unstructured); ok {
			select {
			case events <- watchEvent{u, deleted}:
			case <-ctx.Done():
			}
		}
	}
	handlers, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { send(obj, false) }, UpdateFunc: func(_, obj any) { send(obj, false) }, DeleteFunc: func(obj any) { send(obj, true) },
	})
	if err != nil {
		return err
	}
	go informer.RunWithContext(logr.NewContext(ctx, logr.Discard())) // watchError reports the errors
	return w.loop(ctx, events, failed, handlers.HasSynced)
}

// loop handles the events until the context ends, the time limit has passed, or the watch fails permanently. With
// --until-quiet, it also ends when no object has unfinished handlers.
func (w *watcher) loop(ctx context.Context, events <-chan watchEvent, failed <-chan error, synced func() bool) error {
	var end <-chan time.Time
	if w.limit > 0 {
		timer := time.NewTimer(w.limit)
		defer timer.Stop()
		end = timer.C
	}
	ticker := time.NewTicker(redrawInterval)
	defer ticker.Stop()
	for {
		select {
		case event := <-events:
			w.update(event)
		case <-ticker.C:
			if w.terminal != nil && synced() {
				w.draw()
			}
		case <-end:
			switch {
			case !synced():
				return fmt.Errorf("the API server has not listed the objects within %s", w.limit)
			case w.untilQuiet:
				return fmt.Errorf("%d objects have unfinished handlers after %s", len(w.unfinished), w.limit)
			}
			return nil
		case err := <-failed:
			return err
		case <-ctx.Done(): // the user has interrupted the command
			return nil
		}
		if w.untilQuiet && synced() && len(w.unfinished) == 0 {
			if w.terminal != nil {
				w.draw()
			}
			return nil
		}
	}
}

// watchError reports an error of the list or of the watch. A permanent error ends the command. After other errors, the informer
// repeats the request.
func (w *watcher) watchError(err error, failed chan<- error) {
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		select {
		case failed <- fmt.Errorf("watch the objects: %w", err):
		default: // an earlier error ends the command
		}
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), errors.Is(err, io.EOF):
	default:
		_, _ = fmt.Fprintln(w.errors, "the watch was interrupted and starts again:", oneLine(err.Error()))
	}
}

// update applies an event. Without a terminal, it prints the changes.
func (w *watcher) update(event watchEvent) {
	w.look.now = time.Now()
	name := cache.MetaObjectToName(event.object)
	before, after := w.rows[name], map[string]watchRow{}
	delete(w.rows, name)
	delete(w.unfinished, name)
	gone := "finished"
	if event.deleted {
		gone = "deleted"
	} else {
		found := w.look.inspect(event.object)
		var unfinished bool
		if after, unfinished = w.rowsOf(&found, w.look.lastHandled().Fetch(event.object) != nil); unfinished {
			w.unfinished[name] = true
		}
		if len(after) > 0 {
			w.rows[name] = after
		}
	}
	if w.terminal != nil {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(after)) {
		if before[id] != after[id] {
			w.print(name, after[id])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(before)) {
		if _, still := after[id]; !still && (id != "" || len(after) == 0) { // the row of a handler that begins replaces the row of the object
			row := before[id]
			row.state, row.due, row.message = gone, "", ""
			w.print(name, row)
		}
	}
}

// rowsOf returns the rows of an object, by handler, and whether it has unfinished handlers.
func (w *watcher) rowsOf(f *finding, handled bool) (rows map[string]watchRow, unfinished bool) {
	rows = map[string]watchRow{}
	for _, h := range f.Handlers {
		unfinished = unfinished || h.unfinished()
		failing := h.State == "failed" || h.unfinished() && h.Message != ""
		show := h.State == "waiting" && w.waiting || failing && w.failing
		if !w.waiting && !w.failing {
			show = h.State != "succeeded"
		}
		if show {
			rows[h.ID] = watchRow{cmp.Or(h.Cause, f.Cause), h.ID, h.State, fmt.Sprint(h.Attempts), h.Due, h.Message}
		}
	}
	cause := f.Cause == "create" || f.Cause == "update" || f.Cause == "delete"
	if !unfinished && cause && (handled || f.Finalizer || w.unseen) {
		unfinished = true
		if !w.waiting && !w.failing && len(f.Handlers) == 0 {
			rows[""] = watchRow{cause: f.Cause, state: "not begun"}
		}
	}
	return rows, unfinished
}

var watchHeader = []string{"NAMESPACE", "NAME", "CAUSE", "HANDLER", "STATE", "ATTEMPTS", "DUE", "ERROR"}

func (r watchRow) cells(name cache.ObjectName) []string {
	cells := []string{name.Namespace, name.Name, r.cause, r.handler, r.state, r.attempts, r.due, r.message}
	for i := range cells {
		cells[i] = cmp.Or(cells[i], "-")
	}
	return cells
}

// print prints a change as one line.
func (w *watcher) print(name cache.ObjectName, row watchRow) {
	parts := []string{w.look.now.UTC().Format(time.RFC3339), name.String(), row.cause, row.handler, row.state}
	if row.attempts != "" {
		parts = append(parts, "attempts="+row.attempts)
	}
	if row.due != "" {
		parts = append(parts, "due="+row.due)
	}
	_, _ = fmt.Fprintln(w.out, oneLine(strings.Join(append(parts, row.message), " ")))
}

// draw draws the table on the terminal. It cuts the table to the size of the terminal.
func (w *watcher) draw() {
	now := time.Now()
	rows := [][]string{watchHeader}
	for _, name := range slices.SortedFunc(maps.Keys(w.rows), func(a, b cache.ObjectName) int { return strings.Compare(a.String(), b.String()) }) {
		for _, id := range slices.Sorted(maps.Keys(w.rows[name])) {
			row := w.rows[name][id]
			if due, err := time.Parse(time.RFC3339, row.due); err == nil {
				row.due = "in " + max(due.Sub(now), 0).Round(time.Second).String()
			}
			rows = append(rows, row.cells(name))
		}
	}
	var text bytes.Buffer
	_ = output("table").write(&text, nil, func() [][]string { return rows }) // a buffer returns no errors
	width, height, err := term.GetSize(int(w.terminal.Fd()))
	if err != nil {
		width, height = 80, 24
	}
	_, _ = io.WriteString(w.terminal, screen(text.String(), fmt.Sprintf("%d objects with unfinished handlers at %s", len(w.unfinished), now.Format(time.TimeOnly)), width, height))
}

// screen returns the control sequences and the text that replace the content of a terminal.
func screen(table, summary string, width, height int) string {
	lines := append([]string{summary}, strings.Split(strings.TrimSuffix(table, "\n"), "\n")...)
	if hidden := len(lines) - (height - 1); hidden > 0 && height > 2 {
		lines[0] += fmt.Sprintf(" (%d rows are hidden: the terminal is too small)", hidden)
		lines = lines[:height-1]
	}
	for i, line := range lines {
		if runes := []rune(line); len(runes) > width {
			lines[i] = string(runes[:width])
		}
	}
	return "\x1b[H" + strings.Join(lines, "\x1b[K\n") + "\x1b[K\n\x1b[J" // overwrite the old lines, and clear the rest
}
