package peering

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// handleObservation processes one event of the watch.
func (m *member) handleObservation(ctx context.Context, o observedObject) {
	if o.err != nil {
		m.log.V(1).Info("Failed to watch the peering object", "error", o.err.Error())
		if apierrors.IsForbidden(o.err) || !m.currentStatus().observed {
			m.readErr = explainForbidden(o.err, m.kind)
			m.reportStatus()
		}
		return
	}
	m.readErr = nil
	switch {
	case o.object == nil:
		if o.deletedUID == "" || m.object == nil || o.deletedUID == m.object.GetUID() {
			m.handleAbsence()
		}
	case o.object.GetUID() != m.writtenUID && m.writeErr == nil:
		m.listed, m.isAbsent = true, false
		m.writeRecord(ctx) // the object is new and doesn't have our record; writeRecord also evaluates the response
	default:
		m.listed = true
		m.evaluate(ctx, o.object)
	}
}

func (m *member) handleAbsence() {
	if !m.isAbsent {
		m.log.Info("The peering object does not exist", "mandatory", m.options.Mandatory)
	}
	m.object, m.listed, m.isAbsent, m.observations, m.decision, m.writtenUID = nil, false, true, Observations{}, Decision{}, ""
	m.reportStatus()
}

// evaluate reads the peers from a version of the object, and updates the decision and the status.
func (m *member) evaluate(ctx context.Context, object *unstructured.Unstructured) {
	if m.isOutdated(object) {
		return
	}
	switch {
	case m.object == nil:
		m.log.Info("Joined the peering object")
	case m.object.GetUID() != object.GetUID():
		m.observations = Observations{}
	}
	m.object, m.isAbsent = object, false
	now := time.Now()
	peers, unreadable := m.observations.Observe(object.Object["status"], now)
	m.decision = m.self.Decide(peers, now)
	m.forgetWarnings(peers, unreadable)
	m.warnAboutRecords(peers, unreadable, now)
	m.checkOwnRecord(peers, now)
	m.reportStatus()
	m.removeDeadPeers(ctx, now)
}

// isOutdated reports whether a newer version was already evaluated, because the response to a write can arrive before older watch events.
func (m *member) isOutdated(object *unstructured.Unstructured) bool {
	if m.object == nil || m.object.GetUID() != object.GetUID() {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), m.object.GetResourceVersion())
	return err == nil && order < 0
}

// checkOwnRecord logs a warning if another client has changed the operator's record. If it was removed, checkOwnRecord schedules a write.
func (m *member) checkOwnRecord(peers []Peer, now time.Time) {
	if m.object.GetUID() != m.writtenUID {
		return
	}
	for _, p := range peers {
		if p.Identity != m.self.Identity {
			continue
		}
		if formatTimestamp(p.LastSeen) != m.writtenTimestamp {
			m.warnOnce(p.Identity, "Another operator has the same identity, so the two ignore each other; use unique identities",
				"identity", p.Identity)
		}
		return
	}
	// A user has removed the record, or a peer with a wrong clock considered it dead. Write it again soon.
	if soon := latest(now, m.lastWritten.Monotonic.Add(rewriteDelay)); soon.Before(m.nextWrite) {
		m.nextWrite = soon
	}
}

// removeDeadPeers removes the records of dead peers. A conflict means that another peer was faster.
func (m *member) removeDeadPeers(ctx context.Context, now time.Time) {
	dead := m.decision.Dead
	if len(dead) == 0 || now.Before(m.cleanAfter) {
		return
	}
	m.cleanAfter = now.Add(maxRetryDelay) // don't retry a failure at once
	version := m.object.GetResourceVersion()
	object, err := m.write(ctx, m.requestTimeout(), func() ([]byte, error) { return deadPeersPatch(dead, version) })
	switch {
	case err == nil && slices.ContainsFunc(dead, func(p Peer) bool { return hasRecord(object, p.Identity) }):
		m.writeErr = fmt.Errorf("%w: the API server kept the records of dead peers", errUnserved)
	case err == nil:
		m.cleanAfter = time.Time{}
		m.log.Info("Removed the records of dead peers", "peers", formatPeers(dead))
		m.evaluate(ctx, object)
	case apierrors.IsConflict(err):
		m.cleanAfter = time.Time{} // the watch will deliver the newer version
	default:
		m.log.V(1).Info("Failed to remove the records of dead peers", "peers", formatPeers(dead), "error", explainForbidden(err, m.kind).Error())
	}
}

func (m *member) warnAboutRecords(peers []Peer, unreadable []Unreadable, now time.Time) {
	for _, u := range unreadable {
		m.warnOnce(u.Identity, "Ignoring an unreadable record", "identity", u.Identity, "error", u.Err.Error())
	}
	for _, p := range peers {
		if ahead := p.LastSeen.Sub(now); ahead > 10*time.Second && p.Identity != m.self.Identity {
			m.warnOnce(p.Identity, "The clock of a peer is ahead; operators in Python depend on synchronized clocks",
				"identity", p.Identity, "by", ahead.Round(time.Second).String())
		}
	}
}

// forgetWarnings forgets the warnings about records that no longer exist. Otherwise they would pile up, because other clients can write any
// number of records.
func (m *member) forgetWarnings(peers []Peer, unreadable []Unreadable) {
	exists := map[string]bool{}
	for _, p := range peers {
		exists[p.Identity] = true
	}
	for _, u := range unreadable {
		exists[u.Identity] = true
	}
	maps.DeleteFunc(m.warned, func(identity, _ string) bool { return !exists[identity] })
}

func (m *member) warnOnce(identity, message string, keysAndValues ...any) {
	if m.warned[identity] == message {
		return
	}
	m.warned[identity] = message
	m.log.Info(message, keysAndValues...)
}

// reportStatus reports the current status of the object.
func (m *member) reportStatus() {
	err := m.readErr
	// A failed write doesn't matter until the last record expires.
	if m.writeErr != nil && !m.isAbsent && (m.writtenUID == "" || m.readClocks().Since(m.lastWritten) >= m.options.Lifetime) {
		err = m.writeErr
	}
	looked := m.isAbsent && m.readErr == nil || m.object != nil && m.object.GetUID() == m.writtenUID
	m.report(m.location, func(s *status) {
		s.observed = s.observed || looked
		s.served, s.object, s.decision, s.message, s.err = true, m.object, m.decision, m.decision.message(m.self), err
	})
}

func (m *member) currentStatus() status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.statuses[m.location]
}

func hasRecord(object *unstructured.Unstructured, identity string) bool {
	status, _ := object.Object["status"].(map[string]any)
	_, there := status[identity]
	return there
}

// recordMatches reports whether the record of the identity was written at the given time.
func recordMatches(object *unstructured.Unstructured, identity string, written time.Time) bool {
	lastSeen, _, _ := unstructured.NestedString(object.Object, "status", identity, "lastseen")
	return lastSeen == formatTimestamp(written)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
