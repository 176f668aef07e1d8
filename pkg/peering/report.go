package peering

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
)

// report changes the status of one location, updates the metrics, and logs a change of the namespace's state. When a pause starts or ends,
// it also calls the subscribers and posts an Event.
func (p *Peering) report(at location, change func(*status)) {
	p.reportMu.Lock()
	defer p.reportMu.Unlock()
	p.mu.Lock()
	if p.isShuttingDown() {
		p.mu.Unlock()
		return
	}
	s := p.statuses[at]
	change(&s)
	p.statuses[at] = s
	p.markObserved()
	before, after, announced := p.states[at.namespace], p.computeState(at.namespace), p.announcedPauses[at.namespace]
	p.states[at.namespace] = after
	if after.phase > notObserved {
		p.announcedPauses[at.namespace] = after.isPaused()
	}
	object := p.eventTarget(at)
	var subscribers []func(Transition)
	if before.isPaused() != after.isPaused() {
		close(p.changed)
		p.changed = make(chan struct{})
		for _, id := range slices.Sorted(maps.Keys(p.subscribers)) {
			subscribers = append(subscribers, p.subscribers[id])
		}
	}
	p.mu.Unlock()

	notify := func() {
		for _, subscriber := range subscribers {
			err := guard.Call("Subscribe", func() error {
				subscriber(Transition{Namespace: at.namespace, Paused: after.isPaused(), Why: after.message})
				return nil
			})
			if err != nil {
				p.log.Error(err, "A subscriber of the peering panicked; it may have missed a pause or its end", "namespace", at.namespace, "stack", guard.Trace(err))
			}
		}
	}
	// At the start of a pause, call the subscribers first, so that they stop their work before the pause is logged and posted. At its end,
	// call them afterwards.
	if after.isPaused() {
		notify()
	}
	p.updateMetrics(at, s.decision.AliveCount(), after)
	p.logState(at.namespace, before, after, announced)
	p.recordEvent(object, after, announced)
	if !after.isPaused() {
		notify()
	}
}

// markObserved closes the channel observed once all locations are observed. The caller must hold the lock.
func (p *Peering) markObserved() {
	for _, s := range p.statuses {
		if !s.observed {
			return
		}
	}
	select {
	case <-p.observed:
	default:
		close(p.observed)
	}
}

func (p *Peering) updateMetrics(at location, peers int, after state) {
	metrics.Peers.WithLabelValues(at.group, p.options.Name, at.namespace).Set(float64(peers))
	paused := 0.0
	if after.isPaused() {
		paused = 1
	}
	metrics.Paused.WithLabelValues(p.options.Name, at.namespace).Set(paused)
}

// deleteMetrics removes the metrics of the operator at shutdown.
func (p *Peering) deleteMetrics() {
	for at := range p.statuses {
		metrics.Peers.DeleteLabelValues(at.group, p.options.Name, at.namespace)
		metrics.Paused.DeleteLabelValues(p.options.Name, at.namespace)
	}
}

// eventTarget returns the peering object to post Events about: the location's own, or the one of the other group if that doesn't exist. The
// caller must hold the lock.
func (p *Peering) eventTarget(at location) *unstructured.Unstructured {
	object := p.statuses[at].object
	for _, group := range groups {
		if object == nil {
			object = p.statuses[location{group, at.namespace}].object
		}
	}
	return object
}

// logState logs a state change. announced says whether the start of a pause was logged, but not its end.
func (p *Peering) logState(namespace string, before, after state, announced bool) {
	log := p.log
	if namespace != "" {
		log = log.WithValues("namespace", namespace)
	}
	switch {
	case before == after, after.phase == notObserved:
	case after.phase == failing:
		log.Error(nil, "Paused because peering is failing", "reason", after.message)
	case after.isPaused() && announced:
		log.Info("Still paused", "reason", after.message)
	case after.isPaused():
		log.Info("Paused", "reason", after.message)
	case announced:
		log.Info("Resumed", "reason", after.message)
	case before.isPaused():
		log.Info("Not paused", "reason", after.message)
	}
}

// recordEvent posts an Event about the peering object when a pause starts or ends.
func (p *Peering) recordEvent(object *unstructured.Unstructured, after state, announced bool) {
	if object == nil || p.recorder == nil || after.phase <= notObserved || after.isPaused() == announced {
		return
	}
	switch {
	case !after.isPaused():
		p.recorder.Eventf(object, nil, corev1.EventTypeNormal, "Resumed", "Resume", "%s", p.eventNote(after))
	case after.phase == outranked:
		p.recorder.Eventf(object, nil, corev1.EventTypeNormal, "Paused", "Pause", "%s", p.eventNote(after))
	default:
		p.recorder.Eventf(object, nil, corev1.EventTypeWarning, "Paused", "Pause", "%s", p.eventNote(after))
	}
}

// eventNote returns the message of an Event, whose length the API limits.
func (p *Peering) eventNote(s state) string {
	const most = 1000
	return guard.ShortenText(p.Identity()+": "+s.message, most)
}
