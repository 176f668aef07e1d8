package engine

import (
	"context"
	"encoding/json"
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// A pin is the essence that a cycle has begun with, kept on the object beside the records while the cycle
// takes more than one pass (B-01): an edit that comes in between is the next cycle's.
type pin struct {
	// Since tells the stored baseline that the cycle is counted from: after another one it means nothing.
	Since string `json:"since,omitempty"`
	kept
	// Turned: it is the undoing of what it was about before. Some handlers may be behind.
	Turned bool `json:"turned,omitempty"`
	// Seen is what a handler was done with last, if that is not what it was called for: the object was edited
	// by then. It has to be told, whatever the object is in the end.
	Seen *kept `json:"seen,omitempty"`
	// Ahead says that the pin was stored before the records: see pinAhead.
	Ahead bool `json:"ahead,omitempty"`
}

// A kept essence: the digest tells whether another one is the same. The essence itself is there if it fits
// on the object.
type kept struct {
	Digest  string          `json:"digest,omitempty"`
	Essence json.RawMessage `json:"essence,omitempty"`
}

// unpin puts the cycle back on the state that it has begun with.
func (e *Engine) unpin(ctx context.Context, c *cycle, stored []byte) {
	text := e.Pin.Fetch(c.before)
	if text == nil {
		return
	}
	c.unpinned = true
	var p pin
	if err := json.Unmarshal(text, &p); err != nil {
		metrics.UnreadableState.WithLabelValues(e.Name).Inc()
		log.FromContext(ctx).Info("Warning: the pinned configuration is unreadable and taken as absent", "error", err.Error())
		return
	}
	p.kept = e.refolded(c, p.kept)
	if p.Seen != nil {
		p.Seen = new(e.refolded(c, *p.Seen))
	}
	reason := cause.Create
	if c.facts.HasBaseline {
		reason = cause.Update
	}
	begun := p.Ahead || c.state.HasRecords(string(reason))
	if c.facts.Deleting || p.Since != mark(stored) || !begun && p.Seen == nil {
		return // it is from another cycle
	}
	c.turnedBefore, c.seen = p.Turned, p.Seen
	undone := c.then != nil && diff.Equal(c.then, c.live)
	switch {
	case begun && p.Digest == digestOf(c.live):
		c.unpinned = false
	case undone && begun && (c.state.HasAttempts(string(reason)) || p.Ahead || p.Turned || p.Seen != nil):
		e.turn(c, p.kept)
	case undone && begun:
		// Nobody has to be told.
	case undone:
		e.turn(c, *p.Seen)
	case begun:
		c.unpinned = false
		if c.now = e.essenceOf(p.kept); c.now == nil {
			c.now, c.lost = c.live, p.Digest
		}
	default:
		// The next cycle begins with what there is. It must not be dropped when that is undone.
		c.unpinned, c.turnedBefore, c.seen = false, true, nil
	}
}

// turn makes an update that was undone one of its undoing: those who are done with it have to be told.
func (e *Engine) turn(c *cycle, from kept) {
	c.unpinned, c.turned, c.seen = false, true, nil
	if c.then = e.essenceOf(from); c.then == nil {
		c.origin = from.Digest
	}
	c.state.Restart(string(cause.Update))
}

// essenceOf reads a kept essence; nil if only its digest is known.
func (e *Engine) essenceOf(k kept) map[string]any {
	if k.Essence == nil {
		return nil
	}
	essence, err := e.shape.Decode(k.Essence)
	if err != nil {
		return nil
	}
	if typed, err := e.reshaped(essence); err == nil {
		essence = typed
	}
	return essence
}

// isPinned reports whether the object was edited since the cycle began.
func (c *cycle) isPinned() bool {
	same := reflect.ValueOf(c.now).Pointer() == reflect.ValueOf(c.live).Pointer()
	return c.lost != "" || !same && !diff.Equal(c.now, c.live)
}

// sees takes note of what a handler was done with, if that is not what it was called for.
func (e *Engine) sees(c *cycle) {
	if c.reason == cause.Delete || !c.isPinned() {
		return
	}
	if seen := keptOf(c.live, kept{}); seen.Digest != "" {
		c.seen = &seen
	}
}

// keptOf is an essence to be kept; something else if it has no JSON form.
func keptOf(of map[string]any, otherwise kept) kept {
	text, err := essence.Encode(of)
	if err != nil {
		return otherwise
	}
	return kept{Digest: digest(text), Essence: text}
}

// pin keeps the essence that is being handled for the passes to come.
func (e *Engine) pin(c *cycle, obj client.Object, handled map[string]any) error {
	if c.reason != cause.Create && c.reason != cause.Update {
		return e.unfinished(c, obj, handled) // what resumes has nothing to be pinned to
	}
	p := pin{kept: kept{Digest: c.lost}, Turned: c.turned || c.turnedBefore, Seen: c.seen}
	if c.lost == "" {
		text, err := c.encode(handled)
		if err != nil {
			return err
		}
		p.kept = kept{digest(text), text}
	}
	return e.storePin(c, obj, p)
}

// unfinished leaves a pin behind when a cycle is over but has shown a handler more than it was about: should
// that be undone, the handler has to be told.
func (e *Engine) unfinished(c *cycle, obj client.Object, handled map[string]any) error {
	if c.seen == nil || c.reason == cause.Delete || c.seen.Digest == digestOf(handled) && c.lost == "" {
		e.Pin.Store(obj, nil)
		return nil
	}
	return e.storePin(c, obj, pin{Seen: c.seen})
}

// storePin keeps as much of a pin as the object can carry.
func (e *Engine) storePin(c *cycle, obj client.Object, p pin) error {
	p.Since = mark(e.Baseline.Fetch(obj))
	for range 2 {
		text, err := json.Marshal(p)
		if err != nil {
			return err
		}
		e.Pin.Store(obj, text)
		if sizeOf(obj)+c.added <= annotationBudget {
			break
		}
		p.Essence = nil // the digests have to do
		if p.Seen != nil {
			p.Seen = &kept{Digest: p.Seen.Digest}
		}
	}
	return nil
}

// mark tells one stored baseline from another.
func mark(stored []byte) string {
	if stored == nil {
		return ""
	}
	return digest(stored)
}
