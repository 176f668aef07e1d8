package peering

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// see takes what the watch has seen.
func (m *member) see(ctx context.Context, l look) {
	if l.err != nil {
		m.log.V(1).Info("The peering object is not seen", "error", l.err.Error())
		if apierrors.IsForbidden(l.err) || !m.standing().looked {
			m.readErr = explain(l.err, m.k)
			m.tell()
		}
		return
	}
	m.readErr = nil
	switch {
	case l.object == nil:
		if l.gone == "" || m.object == nil || l.gone == m.object.GetUID() {
			m.absent()
		}
	case l.object.GetUID() != m.writtenTo && m.writeErr == nil:
		m.listed, m.isAbsent = true, false
		m.touch(ctx) // it is new: be known there before anything else; the answer is a look as well
	default:
		m.listed = true
		m.judge(ctx, l.object)
	}
}

func (m *member) absent() {
	if !m.isAbsent {
		m.log.Info("There is no peering object", "mandatory", m.options.Mandatory)
	}
	m.object, m.listed, m.isAbsent, m.sightings, m.verdict, m.writtenTo = nil, false, true, Sightings{}, Verdict{}, ""
	m.tell()
}

// judge looks at the object and draws the conclusions. It is called with objects that were just received.
func (m *member) judge(ctx context.Context, object *unstructured.Unstructured) {
	if m.isOlder(object) {
		return
	}
	if m.object != nil && m.object.GetUID() != object.GetUID() {
		m.sightings = Sightings{}
	}
	m.object, m.isAbsent = object, false
	now := time.Now()
	peers, unreadable := m.sightings.See(object.Object["status"], now)
	m.verdict = m.self.Judge(peers, now)
	m.warn(peers, unreadable, now)
	m.lookAtOwn(peers, now)
	m.tell()
	m.clean(ctx, now)
}

// isOlder: an answer to a write may overtake what the watch has to tell.
func (m *member) isOlder(object *unstructured.Unstructured) bool {
	if m.object == nil || m.object.GetUID() != object.GetUID() {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), m.object.GetResourceVersion())
	return err == nil && order < 0
}

// lookAtOwn notices that our record is not as we have written it.
func (m *member) lookAtOwn(peers []Peer, now time.Time) {
	if m.object.GetUID() != m.writtenTo {
		return // not written yet
	}
	for _, p := range peers {
		if p.Identity != m.self.Identity {
			continue
		}
		if timestamp(p.LastSeen) != m.lastSeen {
			m.warnOnce(p.Identity, "Another operator has the same identity: neither notices the other; give each one of its own",
				"identity", p.Identity)
		}
		return
	}
	// A peer whose clock is wrong takes us for dead, or somebody has removed the record by hand.
	if soon := later(now, m.written.own.Add(rewriteAfter)); soon.Before(m.due) {
		m.due = soon
	}
}

// clean removes the dead. Whoever is the first to do so has done it for all.
func (m *member) clean(ctx context.Context, now time.Time) {
	dead := m.verdict.Dead
	if len(dead) == 0 || now.Before(m.cleanAfter) {
		return
	}
	m.cleanAfter = now.Add(lastRetry) // should it fail
	version := m.object.GetResourceVersion()
	object, err := m.write(ctx, m.requestTimeout(), func() ([]byte, error) { return cleaning(dead, version) })
	switch {
	case err == nil && slices.ContainsFunc(dead, func(p Peer) bool { return hasRecord(object, p.Identity) }):
		m.writeErr = fmt.Errorf("%w: the server has left the records of dead peers where they are", errUnserved)
	case err == nil:
		m.cleanAfter = time.Time{}
		m.log.Info("Removed the records of dead peers", "peers", list(dead))
		m.judge(ctx, object)
	case apierrors.IsConflict(err):
		m.cleanAfter = time.Time{} // there is something newer to look at
	default:
		m.log.V(1).Info("The records of dead peers were not removed", "peers", list(dead), "error", explain(err, m.k).Error())
	}
}

func (m *member) warn(peers []Peer, unreadable []Unreadable, now time.Time) {
	for _, u := range unreadable {
		m.warnOnce(u.Identity, "A record is not understood, and ignored", "identity", u.Identity, "error", u.Err.Error())
	}
	for _, p := range peers {
		if ahead := p.LastSeen.Sub(now); ahead > 10*time.Second && p.Identity != m.self.Identity {
			m.warnOnce(p.Identity, "The clock of a peer is ahead of ours, or ours is behind; it does no harm here, but operators in Python go by clocks",
				"identity", p.Identity, "by", ahead.Round(time.Second).String())
		}
	}
}

func (m *member) warnOnce(identity, message string, keysAndValues ...any) {
	if m.warned[identity] == message {
		return
	}
	m.warned[identity] = message
	m.log.Info(message, keysAndValues...)
}

// tell reports what is known by now.
func (m *member) tell() {
	err := m.readErr
	// As long as the others have a record of ours that is alive, there is time to write the next one.
	if m.writeErr != nil && !m.isAbsent && (m.writtenTo == "" || m.written.age(m.instant()) >= m.options.Lifetime) {
		err = m.writeErr
	}
	looked := m.isAbsent && m.readErr == nil || m.object != nil && m.object.GetUID() == m.writtenTo
	m.report(m.place, func(s *standing) {
		s.looked = s.looked || looked
		s.served, s.object, s.verdict, s.why, s.err = true, m.object, m.verdict, m.verdict.why(m.self), err
	})
}

func (m *member) standing() standing {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.standings[m.place]
}

func hasRecord(object *unstructured.Unstructured, identity string) bool {
	status, _ := object.Object["status"].(map[string]any)
	_, there := status[identity]
	return there
}

// says reports whether the record of the identity is the one that was written at that moment.
func says(object *unstructured.Unstructured, identity string, written time.Time) bool {
	lastSeen, _, _ := unstructured.NestedString(object.Object, "status", identity, "lastseen")
	return lastSeen == timestamp(written)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
