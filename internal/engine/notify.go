package engine

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// notifier posts Events about the object of a cycle.
func (e *Engine) notifier(c *cycle) func(eventType, reason, action, note string, args ...any) {
	return e.notifierFor(c.before)
}

func (e *Engine) notifierFor(obj client.Object) func(eventType, reason, action, note string, args ...any) {
	return func(eventType, reason, action, note string, args ...any) {
		if e.Recorder != nil {
			e.Recorder.Eventf(obj, nil, eventType, reason, action, note, args...)
		}
	}
}
