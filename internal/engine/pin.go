package engine

import (
	"context"
	"encoding/json"
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/causation"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/diff"
)

// A pin is the essence that a cycle has begun with, kept on the object beside the records while the cycle
// takes more than one pass (B-01): an edit that comes in between is the next cycle's.
type pin struct {
	// Since tells the stored baseline that the cycle is counted from: after another one it means nothing.
	Since string `json:"since,omitempty"`
	// Digest tells whether the object was edited since; Essence, if it fits on the object, what it was before.
	Digest  string          `json:"digest"`
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
		metrics.Unreadable.WithLabelValues(e.Name).Inc()
		log.FromContext(ctx).Info("Warning: the pinned configuration is unreadable and taken as absent", "error", err.Error())
		return
	}
	reason := causation.Create
	if c.facts.Known {
		reason = causation.Update
	}
	if c.facts.Deleting || p.Since != mark(stored) || !c.state.Started(string(reason)) {
		return // it is from another cycle
	}
	if p.Digest == digestOf(c.live) {
		c.unpinned = false
		return
	}
	undone := c.then != nil && diff.Equal(c.then, c.live)
	if undone && !c.state.Acted(string(reason)) {
		return // nobody has to be told
	}
	c.unpinned, c.reverted = false, undone
	if p.Essence == nil {
		c.lost = p.Digest
		return
	}
	then, err := e.shape.Decode(p.Essence)
	if err != nil {
		c.lost = p.Digest
		return
	}
	if typed, err := e.reshaped(then); err == nil {
		then = typed
	}
	c.now = then
}

// isPinned reports whether the object was edited since the cycle began.
func (c *cycle) isPinned() bool {
	same := reflect.ValueOf(c.now).Pointer() == reflect.ValueOf(c.live).Pointer()
	return c.lost != "" || !same && !diff.Equal(c.now, c.live)
}

// pin keeps the essence that is being handled for the passes to come.
func (e *Engine) pin(c *cycle, kept client.Object, handled map[string]any) error {
	if c.reason != causation.Create && c.reason != causation.Update {
		e.Pin.Store(kept, nil)
		return nil
	}
	if c.lost != "" {
		return nil // it stands there already
	}
	text, err := essence.Encode(handled)
	if err != nil {
		return err
	}
	p := pin{Since: mark(e.Baseline.Fetch(kept)), Digest: digest(text), Essence: text}
	for range 2 {
		if text, err = json.Marshal(p); err != nil {
			return err
		}
		e.Pin.Store(kept, text)
		if sizeOf(kept) <= annotationBudget {
			break
		}
		p.Essence = nil // the digest has to do
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
