package eventwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	"github.com/kopf-runtime/kopf-runtime/pkg/clusterevents"
)

const (
	pageSize   = 500
	firstPause = time.Second
	lastPause  = 30 * time.Second
	// overlap is how far before the end of the last list or watch a new list reaches back. It makes up for clock differences, and
	// for the time until a broken connection is noticed.
	overlap = time.Minute
)

// Options configure a [Watcher].
type Options struct {
	Client    corev1client.EventsGetter
	Namespace string // empty for all namespaces
	Kind      string // kind of the objects that the Events are about
	Group     string // the kind's API group
	Selector  clusterevents.Selector
	Reporters []string // reporting controllers of our own Events
	// Deliver handles an Event and returns the owners that it found. After an error, the Watcher calls it again, up to 8 times, and
	// delivers other Events in between. An OrderedError makes the other Events wait. After an UnobservedError, the Event is only delivered
	// to the unobserved owners.
	Deliver func(ctx context.Context, d Delivery) ([]Owner, error)
	Log     logr.Logger
}

// A Delivery is a state of an Event that a [Watcher] delivers.
type Delivery struct {
	Event   *corev1.Event
	Earlier bool // whether Event is from before the start
	// Unobserved are the owners from the last UnobservedError for this state; all others have received it. It is nil in the first attempt.
	Unobserved []Owner
	// Waiting returns the newest states of an owner's Events that the Watcher has received, but not delivered yet. Events whose owner isn't
	// known yet are missing. It is safe for concurrent use.
	Waiting func(owner Owner) []*corev1.Event
}

// A Watcher delivers the Events about one kind in one namespace.
type Watcher struct {
	Options

	series  *series
	started time.Time
	contact time.Time // the end of the last list or watch

	mu     sync.Mutex
	status Status
}

// Status is the state of a [Watcher].
type Status struct {
	Listed bool      // whether the first list has succeeded
	Err    error     // the last list's or watch's error; nil if it has succeeded
	Since  time.Time // when requests started to fail for the same reason as Err
}

// New returns a watcher, which does nothing until [Watcher.Run].
func New(options Options) *Watcher { return &Watcher{Options: options} }

// Status returns the current state. It is safe for concurrent use.
func (w *Watcher) Status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

func (w *Watcher) markListed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status.Listed = true
}

// errExpired means that the API server no longer has the version from which the watch should continue.
var errExpired = errors.New("the version of the watch has expired")

// Run delivers Events until the context is cancelled.
func (w *Watcher) Run(ctx context.Context) {
	w.started = time.Now()
	w.series = newSeries(w.Selector.Interval, w.Deliver, w.Log)
	var delivering sync.WaitGroup
	defer delivering.Wait()
	delivering.Go(func() { w.series.run(ctx) })
	pause := firstPause
	for ctx.Err() == nil {
		version, err := w.list(ctx)
		if err == nil {
			w.Log.V(1).Info("Watching Events", "about", w.Kind, "namespace", w.Namespace)
			pause = firstPause
			err = w.watch(ctx, version)
		}
		if errors.Is(err, errExpired) {
			w.Log.V(1).Info("The watch of Events has expired; listing them again")
		}
		sleep(ctx, pause)
		pause = min(2*pause, lastPause)
	}
}

// list delivers the existing Events that are young enough, oldest first, and returns the version from which a watch continues. If Events
// from before the start are ignored, the first call requests a single Event, only to learn the resource version, and doesn't deliver it.
func (w *Watcher) list(ctx context.Context) (version string, err error) {
	options := metav1.ListOptions{FieldSelector: fieldSelector(w.Selector, w.Kind, w.Reporters...).String(), Limit: pageSize}
	listed := w.Status().Listed
	oldest := w.started.Add(-w.Selector.Since)
	switch {
	case listed:
		if last := w.contact.Add(-overlap); last.After(oldest) {
			oldest = last
		}
	case w.Selector.Since == 0:
		options.FieldSelector, options.Limit = "", 1
	}
	var found []*corev1.Event
	for {
		page, err := w.Client.Events(w.Namespace).List(ctx, options)
		if w.report(ctx, err); err != nil {
			return "", err
		}
		if version == "" {
			version = page.ResourceVersion // all pages have the same version
		}
		if options.Limit == 1 {
			break
		}
		for i := range page.Items {
			if !LastSeen(&page.Items[i]).Before(oldest) {
				found = append(found, &page.Items[i])
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	slices.SortStableFunc(found, func(a, b *corev1.Event) int { return LastSeen(a).Compare(LastSeen(b)) })
	for _, event := range found {
		w.receive(event, !listed)
	}
	if listed {
		w.series.forgetBefore(oldest)
	}
	w.contact = time.Now()
	w.markListed()
	return version, nil
}

// watch delivers Events until the context is cancelled, or until it can't continue from its version.
func (w *Watcher) watch(ctx context.Context, version string) error {
	pause := firstPause
	for ctx.Err() == nil {
		began := time.Now()
		next, err := w.watchOnce(ctx, version)
		if errors.Is(err, errExpired) {
			return err
		}
		if next != version || time.Since(began) > lastPause {
			pause = firstPause
		}
		version = next
		if err != nil {
			w.report(ctx, err)
		}
		sleep(ctx, pause)
		pause = min(2*pause, lastPause)
	}
	return nil
}

// watchOnce delivers the Events of one request, and returns the version from which the next request continues.
func (w *Watcher) watchOnce(ctx context.Context, version string) (string, error) {
	events, err := w.Client.Events(w.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fieldSelector(w.Selector, w.Kind, w.Reporters...).String(), ResourceVersion: version, AllowWatchBookmarks: true,
	})
	if err != nil {
		return version, orExpired(err)
	}
	w.report(ctx, nil)
	defer func() { events.Stop(); w.contact = time.Now() }()
	for one := range events.ResultChan() {
		if one.Type == watch.Error {
			return version, orExpired(apierrors.FromObject(one.Object))
		}
		event, ok := one.Object.(*corev1.Event)
		if !ok {
			continue
		}
		version = event.ResourceVersion
		switch one.Type {
		case watch.Added, watch.Modified:
			w.receive(event, false)
		case watch.Deleted:
			w.series.forget(event.UID)
		default: // a bookmark has only a version
		}
	}
	return version, nil
}

func orExpired(err error) error {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return fmt.Errorf("%w: %w", errExpired, err)
	}
	return err
}

// receive passes an Event on if the selector selects it.
func (w *Watcher) receive(event *corev1.Event, earlier bool) {
	if event.InvolvedObject.Kind == w.Kind && event.InvolvedObject.GroupVersionKind().Group == w.Group && matches(w.Selector, event, w.Reporters...) {
		w.series.add(event, earlier)
	}
}

// report records the result of a request. If several requests fail for the same reason, only the first is logged.
func (w *Watcher) report(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		w.status.Since = time.Time{}
	case w.status.Err == nil || apierrors.ReasonForError(err) != apierrors.ReasonForError(w.status.Err):
		w.Log.Info("Failed to list or watch Events; retrying", "error", rbac.Explain(err).Error())
		w.status.Since = time.Now()
	}
	w.status.Err = err
}

// sleep waits for the pause, or until the context is cancelled.
func sleep(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
