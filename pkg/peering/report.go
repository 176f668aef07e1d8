package peering

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
)

// report takes note of what is new at a place, and tells of it whom it concerns.
func (p *Peering) report(at place, change func(*standing)) {
	p.reporting.Lock()
	defer p.reporting.Unlock()
	p.mu.Lock()
	if p.ended() {
		p.mu.Unlock()
		return
	}
	s := p.standings[at]
	change(&s)
	p.standings[at] = s
	p.noteLook()
	before, after, announced := p.states[at.namespace], p.assess(at.namespace), p.announced[at.namespace]
	p.states[at.namespace] = after
	if after.cause > looking {
		p.announced[at.namespace] = after.paused()
	}
	object := p.objectOf(at)
	var tell []func(Transition)
	if before.paused() != after.paused() {
		close(p.changed)
		p.changed = make(chan struct{})
		for _, id := range slices.Sorted(maps.Keys(p.subscribers)) {
			tell = append(tell, p.subscribers[id])
		}
	}
	p.mu.Unlock()

	tellAll := func() {
		for _, one := range tell {
			one(Transition{Namespace: at.namespace, Paused: after.paused(), Why: after.why})
		}
	}
	// When people are told of a pause, everything has been stopped; and when they are told of its end, nothing has been started yet.
	if after.paused() {
		tellAll()
	}
	p.measure(at, s.verdict.Live(), after)
	p.logState(at.namespace, before, after, announced)
	p.post(object, after, announced)
	if !after.paused() {
		tellAll()
	}
}

// noteLook is called with the lock.
func (p *Peering) noteLook() {
	for _, s := range p.standings {
		if !s.looked {
			return
		}
	}
	select {
	case <-p.looked:
	default:
		close(p.looked)
	}
}

func (p *Peering) measure(at place, peers int, after state) {
	metrics.Peers.WithLabelValues(at.group, p.options.Name, at.namespace).Set(float64(peers))
	paused := 0.0
	if after.paused() {
		paused = 1
	}
	metrics.Paused.WithLabelValues(p.options.Name, at.namespace).Set(paused)
}

// forget removes the operator from the metrics when it has ended.
func (p *Peering) forget() {
	for at := range p.standings {
		metrics.Peers.DeleteLabelValues(at.group, p.options.Name, at.namespace)
		metrics.Paused.DeleteLabelValues(p.options.Name, at.namespace)
	}
}

// objectOf returns the object on which Events are posted: that of the place, or of another group. It is called with the lock.
func (p *Peering) objectOf(at place) *unstructured.Unstructured {
	object := p.standings[at].object
	for _, group := range groups {
		if object == nil {
			object = p.standings[place{group, at.namespace}].object
		}
	}
	return object
}

// logState is told whether a pause has been announced that has not ended before.
func (p *Peering) logState(namespace string, before, after state, announced bool) {
	log := p.log
	if namespace != "" {
		log = log.WithValues("namespace", namespace)
	}
	switch {
	case before == after, after.cause == looking:
	case after.cause == failing:
		log.Error(nil, "Paused, as peering fails", "why", after.why)
	case after.paused() && announced:
		log.Info("Still paused", "why", after.why)
	case after.paused():
		log.Info("Paused", "why", after.why)
	case announced:
		log.Info("Resumed", "why", after.why)
	case before.paused():
		log.Info("Not paused", "why", after.why)
	}
}

// post tells of a transition by an Event on the peering object.
func (p *Peering) post(object *unstructured.Unstructured, after state, announced bool) {
	if object == nil || p.recorder == nil || after.cause <= looking || after.paused() == announced {
		return
	}
	switch {
	case !after.paused():
		p.recorder.Eventf(object, nil, corev1.EventTypeNormal, "Resumed", "Resume", "%s", p.note(after))
	case after.cause == outranked:
		p.recorder.Eventf(object, nil, corev1.EventTypeNormal, "Paused", "Pause", "%s", p.note(after))
	default:
		p.recorder.Eventf(object, nil, corev1.EventTypeWarning, "Paused", "Pause", "%s", p.note(after))
	}
}

// note is what an Event says. Its length is limited by the API.
func (p *Peering) note(s state) string {
	const most = 1000
	note := p.Identity() + ": " + s.why
	if len(note) > most {
		note = strings.ToValidUTF8(note[:most], "") + "..."
	}
	return note
}
