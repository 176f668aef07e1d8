package peering

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

const (
	longestRequest = 5 * time.Second
	goodbyeTimeout = 2 * time.Second
	// How soon a record of ours that was removed by somebody is written again, at most.
	rewriteAfter = 5 * time.Second
)

// A member is the operator at one peering object: it keeps the operator's record there, and looks at the others.
// All of it happens in one goroutine; a second one watches.
type member struct {
	*Peering
	k     kind
	place place
	self  Self
	log   logr.Logger

	object    *unstructured.Unstructured // as last seen
	listed    bool                       // the object: not only known by an answer
	isAbsent  bool                       // the object, as far as is known
	sightings Sightings
	verdict   Verdict

	sent       instant   // of the last record; zero: there was none yet
	writtenTo  types.UID // the object that has our record
	written    instant   // when the record was sent that it has
	lastSeen   string    // what it says
	writeErr   error
	readErr    error
	due        time.Time // of the next sign of life
	cleanAfter time.Time
	pause      backoff
	warned     map[string]string
}

func newMember(p *Peering, k kind, namespace string, self Self) *member {
	at := place{k.resource.Group, namespace}
	log := p.log.WithValues("group", at.group)
	if namespace != "" {
		log = log.WithValues("namespace", namespace)
	}
	return &member{Peering: p, k: k, place: at, self: self, log: log, warned: map[string]string{}}
}

func (m *member) run(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	looks, stopped := make(chan look), make(chan struct{})
	go func() {
		defer close(stopped)
		m.watch(watching, looks)
	}()
	defer func() { stop(); <-stopped }()

	m.touch(ctx) // the answer is the first look
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for {
		alarm.Reset(min(time.Until(m.next()), checkSleep))
		select {
		case <-ctx.Done():
			if !unserved(ctx) {
				m.leave(ctx)
			}
			return nil
		case l := <-looks:
			if errors.Is(l.err, errUnserved) {
				return l.err
			}
			m.see(ctx, l)
		case <-alarm.C:
			if m.sent.sleptUntil(m.instant()) {
				m.writeErr = errSlept
			} else if time.Now().Before(m.next()) {
				continue
			}
			if m.writeErr != nil {
				m.tell() // the next try may take a while, and the others may take us for dead by now
			}
			m.touch(ctx)
		}
		if errors.Is(m.writeErr, errUnserved) {
			return m.writeErr
		}
	}
}

// watch tells of all looks, until the context ends.
func (m *member) watch(ctx context.Context, looks chan<- look) {
	var pause backoff
	tell := func(l look) {
		select {
		case looks <- l:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		err := m.api.follow(ctx, m.k, m.place.namespace, m.options.Name, func(l look) {
			pause.reset()
			tell(l)
		})
		if err != nil && ctx.Err() == nil {
			tell(look{err: err})
		}
		pause.wait(ctx)
	}
}

// next is when there is something to do, if nothing happens before.
func (m *member) next() time.Time {
	if m.verdict.Paused && m.writeErr == nil && m.verdict.Next.Before(m.due) {
		return m.verdict.Next // to write, as the answer shows whether the others are still there
	}
	return m.due
}

// touch writes the record: a sign of life for the others, and a look for us.
func (m *member) touch(ctx context.Context) {
	m.sent = m.instant()
	sent := m.sent.own
	record := Record{Priority: m.self.Priority, Lifetime: m.options.Lifetime, LastSeen: sent, Candidate: m.self.Candidate}
	timeout := m.requestTimeout()
	if left := m.options.Lifetime - m.written.age(m.sent); left > 0 {
		timeout = min(timeout, left) // then it is time to pause
	}
	object, err := m.write(ctx, timeout, func() ([]byte, error) { return writing(m.self.Identity, record) })
	if ctx.Err() != nil {
		return
	}
	m.writeErr = nil
	switch {
	case apierrors.IsNotFound(err) && (m.listed || m.object != nil):
		// The object may have gone, or the subresource that it is written by. To ask again tells which.
		err = fmt.Errorf("%w: %w", errUnserved, err)
	case apierrors.IsNotFound(err):
		m.due = sent.Add(m.interval())
		return // whether there is no object, the watch tells
	case err == nil && !says(object, m.self.Identity, sent):
		err = fmt.Errorf("%w: the server has not taken our record into the status of %s %q; its schema needs "+
			"x-kubernetes-preserve-unknown-fields there", errUnserved, m.k.resource.GroupResource(), m.options.Name)
	}
	if err != nil {
		m.writeErr = explain(err, m.k)
		now := time.Now()
		m.due = now.Add(m.pause.next())
		if end := m.written.own.Add(m.options.Lifetime); end.After(now) && end.Before(m.due) {
			m.due = end
		}
		m.log.V(1).Info("The sign of life was not written", "error", m.writeErr.Error())
		m.tell()
		return
	}
	m.pause.reset()
	m.writtenTo, m.written, m.lastSeen = object.GetUID(), m.sent, timestamp(sent)
	m.due = sent.Add(m.interval())
	if !m.options.Stealth {
		m.log.V(1).Info("Sign of life", "next", m.due.Sub(sent).String())
	}
	m.judge(ctx, object)
}

// interval between signs of life: shorter than the lifetime by a random time, for operators that began at once. [wire]
func (m *member) interval() time.Duration {
	lifetime := int(m.options.Lifetime / time.Second)
	return time.Duration(max(1, min(lifetime, max(1, lifetime-5-rand.IntN(6))))) * time.Second
}

// requestTimeout leaves time for a second try before the others take us for dead.
func (m *member) requestTimeout() time.Duration {
	return max(time.Second, min(longestRequest, m.options.Lifetime/4))
}

func (m *member) write(ctx context.Context, timeout time.Duration, body func() ([]byte, error)) (*unstructured.Unstructured, error) {
	text, err := body()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return m.api.patch(ctx, m.k, m.place.namespace, m.options.Name, text)
}

// leave says goodbye. If it is not heard, the record dies by itself.
func (m *member) leave(ctx context.Context) {
	if m.sent == (instant{}) {
		return
	}
	object, err := m.write(context.WithoutCancel(ctx), goodbyeTimeout, func() ([]byte, error) { return removing(m.self.Identity) })
	if err == nil && hasRecord(object, m.self.Identity) {
		err = errUnserved
	}
	if err != nil && m.writtenTo != "" && !apierrors.IsNotFound(err) {
		m.log.Info("The record of the operator was not removed; the others will notice by its lifetime",
			"lifetime", m.options.Lifetime.String(), "error", err.Error())
	}
}
