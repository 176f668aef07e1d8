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

	"github.com/kopf-runtime/kopf-runtime/internal/clocks"
)

const (
	maxRequestTimeout = 5 * time.Second
	removalTimeout    = 2 * time.Second
	// rewriteDelay is the minimum time between two writes if another client keeps removing the record.
	rewriteDelay = 5 * time.Second
)

// member maintains the operator's record in one peering object and observes the peers there. Only the goroutine of run uses the fields. A
// second goroutine watches the object.
type member struct {
	*Peering
	kind     kind
	location location
	self     Self
	log      logr.Logger

	object       *unstructured.Unstructured // latest observed version; nil if the object does not exist
	listed       bool                       // whether the watch has reported the object
	isAbsent     bool                       // whether the object is known not to exist
	observations Observations
	decision     Decision

	lastSent         clocks.Reading // time of the last attempt to write; zero before the first attempt
	writtenUID       types.UID      // UID of the object that contains the record
	lastWritten      clocks.Reading // time of the last successful write
	writtenTimestamp string         // lastseen of the last successful write
	writeErr         error
	readErr          error
	nextWrite        time.Time // time of the next keep-alive write
	cleanAfter       time.Time
	backoff          retryBackoff
	warned           map[string]string
}

func newMember(p *Peering, k kind, namespace string, self Self) *member {
	at := location{k.resource.Group, namespace}
	log := p.log.WithValues("group", at.group)
	if namespace != "" {
		log = log.WithValues("namespace", namespace)
	}
	return &member{Peering: p, kind: k, location: at, self: self, log: log, warned: map[string]string{}}
}

func (m *member) run(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	observed, stopped := make(chan observedObject), make(chan struct{})
	go func() {
		defer close(stopped)
		m.watch(watching, observed)
	}()
	defer func() { stop(); <-stopped }()

	m.writeRecord(ctx) // the response shows the records of the peers
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for {
		alarm.Reset(min(time.Until(m.nextWake()), suspensionCheckInterval))
		select {
		case <-ctx.Done():
			if !endedUnserved(ctx) {
				m.removeRecord(ctx)
			}
			return nil
		case o := <-observed:
			if errors.Is(o.err, errUnserved) {
				return o.err
			}
			m.handleObservation(ctx, o)
		case <-alarm.C:
			if wasSuspended(m.lastSent, m.readClocks()) {
				m.writeErr = errSuspended
			} else if time.Now().Before(m.nextWake()) {
				continue
			}
			if m.writeErr != nil {
				m.reportStatus() // report before the retry, because it can time out, and peers may already consider the operator dead
			}
			m.writeRecord(ctx)
		}
		if errors.Is(m.writeErr, errUnserved) {
			return m.writeErr
		}
	}
}

// watch sends all observed versions of the object until the context is cancelled.
func (m *member) watch(ctx context.Context, observed chan<- observedObject) {
	var pause retryBackoff
	send := func(o observedObject) {
		select {
		case observed <- o:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		err := m.api.watch(ctx, m.kind, m.location.namespace, m.options.Name, func(o observedObject) {
			pause.reset()
			send(o)
		})
		if err != nil && ctx.Err() == nil {
			send(observedObject{err: err})
		}
		pause.wait(ctx)
	}
}

// nextWake returns the time of the next write if no event arrives earlier.
func (m *member) nextWake() time.Time {
	if m.decision.Paused && m.writeErr == nil && m.decision.Recheck.Before(m.nextWrite) {
		return m.decision.Recheck // the response to the write shows whether the blocking peers are still alive
	}
	return m.nextWrite
}

// writeRecord renews the record, and evaluates the peers in the response.
func (m *member) writeRecord(ctx context.Context) {
	m.lastSent = m.readClocks()
	sent := m.lastSent.Monotonic
	record := Record{Priority: m.self.Priority, Lifetime: m.options.Lifetime, LastSeen: sent, Candidate: m.self.Candidate}
	timeout := m.requestTimeout()
	if left := m.options.Lifetime - m.lastSent.Since(m.lastWritten); left > 0 {
		timeout = min(timeout, left) // the operator must pause when its record expires
	}
	object, err := m.write(ctx, timeout, func() ([]byte, error) { return recordPatch(m.self.Identity, record) })
	if ctx.Err() != nil {
		return
	}
	m.writeErr = nil
	switch {
	case apierrors.IsNotFound(err) && (m.listed || m.object != nil):
		// Either the object was deleted, or the status subresource was removed, so discover the kind again.
		err = fmt.Errorf("%w: %w", errUnserved, err)
	case apierrors.IsNotFound(err):
		m.nextWrite = sent.Add(m.keepaliveInterval())
		return // the watch reports whether the object exists
	case err == nil && !recordMatches(object, m.self.Identity, sent):
		err = fmt.Errorf("%w: the API server dropped the record from the status of %s %q: add "+
			"x-kubernetes-preserve-unknown-fields to the status in its schema", errUnserved, m.kind.resource.GroupResource(), m.options.Name)
	}
	if err != nil {
		m.writeErr = explainForbidden(err, m.kind)
		now := time.Now()
		m.nextWrite = now.Add(m.backoff.next())
		if end := m.lastWritten.Monotonic.Add(m.options.Lifetime); end.After(now) && end.Before(m.nextWrite) {
			m.nextWrite = end
		}
		m.log.V(1).Info("Failed to renew the record", "error", m.writeErr.Error())
		m.reportStatus()
		return
	}
	m.backoff.reset()
	m.writtenUID, m.lastWritten, m.writtenTimestamp = object.GetUID(), m.lastSent, formatTimestamp(sent)
	m.nextWrite = sent.Add(m.keepaliveInterval())
	if !m.options.Stealth {
		m.log.V(1).Info("Renewed the record", "next", m.nextWrite.Sub(sent).String())
	}
	m.evaluate(ctx, object)
}

// keepaliveInterval returns the time until the next write: the lifetime minus 5 to 10 seconds, but at least one second. The number of
// seconds is random, so that operators that started together don't write at the same time.
func (m *member) keepaliveInterval() time.Duration {
	lifetime := int(m.options.Lifetime / time.Second)
	return time.Duration(max(1, min(lifetime, max(1, lifetime-5-rand.IntN(6))))) * time.Second
}

// requestTimeout returns a timeout that leaves time for a retry before the record expires.
func (m *member) requestTimeout() time.Duration {
	return max(time.Second, min(maxRequestTimeout, m.options.Lifetime/4))
}

func (m *member) write(ctx context.Context, timeout time.Duration, body func() ([]byte, error)) (*unstructured.Unstructured, error) {
	text, err := body()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return m.api.patch(ctx, m.kind, m.location.namespace, m.options.Name, text)
}

// removeRecord removes the record at shutdown. If this fails, the record will expire.
func (m *member) removeRecord(ctx context.Context) {
	if m.lastSent == (clocks.Reading{}) {
		return
	}
	object, err := m.write(context.WithoutCancel(ctx), removalTimeout, func() ([]byte, error) { return removalPatch(m.self.Identity) })
	if err == nil && hasRecord(object, m.self.Identity) {
		err = errUnserved
	}
	if err != nil && m.writtenUID != "" && !apierrors.IsNotFound(err) {
		m.log.Info("Failed to remove the record; it expires after its lifetime",
			"lifetime", m.options.Lifetime.String(), "error", err.Error())
	}
}
