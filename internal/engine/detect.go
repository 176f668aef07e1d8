package engine

import (
	"bytes"
	"context"
	"hash/maphash"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// detect compares the essence as last handled with the one to be handled, and concludes the cause. That
// is the present essence, unless a cycle is under way that has begun with another one.
func (e *Engine) detect(ctx context.Context, c *cycle) {
	e.recallProgress(ctx, c)
	c.live = e.shape.Build(c.content)
	c.now = c.live
	stored := e.Baseline.Fetch(c.before)
	same := c.isText(stored, c.live)
	was := e.replaced(c, stored)
	switch {
	case stored != nil && !same && e.isKept(c, stored):
		log.FromContext(ctx).V(1).Info("Another client has replaced the last-handled configuration; using the one that this process stored")
		if same = true; was != nil {
			stored = was // a cycle that was under way goes on from there
		}
	case was != nil:
		log.FromContext(ctx).Info("Another client has restored an old state of the object with its last-handled configuration; comparing with the newest one")
		c.state.RestartAll() // what else has come back with it
		stored, same, c.putBack = was, false, true
	}
	switch {
	case same:
		c.then = c.live
	case stored != nil:
		c.then = e.recall(ctx, c, stored)
	}
	e.absorb(c, same)
	c.refolded = c.refolded || c.putBack // the object is to have it again
	onlyDigest, sameDigest := isDigest(c.then, c.live)
	switch {
	case sameDigest:
		c.then = c.live
	case onlyDigest:
		c.then = nil // it has changed, and what it was is not known
	}
	c.facts = cause.Facts{
		Gone:         c.gone,
		Deleting:     c.before.GetDeletionTimestamp() != nil,
		HasFinalizer: e.holds(c.before),
		HasBaseline:  c.then != nil || onlyDigest,
		Initial:      e.existed(c.memory) && !c.memory.Handled,
	}
	e.unpin(ctx, c, stored)
	switch {
	case c.lost != "", c.turned:
		c.facts.Changed = true
	case onlyDigest && !sameDigest:
		c.facts.Changed = true
	case c.then != nil && !(same && !c.refolded || sameDigest) || c.isPinned():
		c.facts.Changed = c.then != nil && !diff.Equal(c.then, c.now)
	}
	c.reason = cause.Detect(c.facts)
	c.memory.SeenAlive = c.memory.SeenAlive || !c.facts.Deleting
	switch {
	case !c.reason.HasHandlers() || c.then == nil && c.facts.HasBaseline:
	case c.then == nil:
		c.diff = diff.Of(nil, c.now)
	case c.facts.Changed:
		c.diff = diff.Of(c.then, c.now)
	}
}

// recallProgress reads how far the handlers are.
func (e *Engine) recallProgress(ctx context.Context, c *cycle) {
	state, err := progress.Load(e.Store, c.before, e.Handlers.IDs())
	if err != nil {
		metrics.UnreadableState.WithLabelValues(e.Name).Inc()
		log.FromContext(ctx).Info("Warning: stored progress is unreadable and taken as absent", "error", err.Error())
	}
	c.state = state
}

// isText is a short cut: mostly nothing has changed and we wrote the text ourselves, so that it is
// the same to the letter and need not be read.
func (c *cycle) isText(stored []byte, now map[string]any) bool {
	if stored == nil {
		return false
	}
	text, err := c.encode(now)
	return err == nil && bytes.Equal(stored, text)
}

// encode encodes an essence. The last result is kept, because an essence is compared first and stored later.
func (c *cycle) encode(of map[string]any) ([]byte, error) {
	if text := c.encoded.textOf(of); text != nil {
		return text, nil
	}
	text, err := essence.Encode(of)
	if err == nil {
		c.encoded = decoded{text, of}
	}
	return text, err
}

// recall reads the stored essence. One that cannot be read is taken as absent, with a warning.
func (e *Engine) recall(ctx context.Context, c *cycle, stored []byte) map[string]any {
	then, err := e.shape.Decode(stored)
	if err != nil {
		metrics.UnreadableState.WithLabelValues(e.Name).Inc()
		log.FromContext(ctx).Info("Warning: the last handled configuration is unreadable and taken as absent", "error", err.Error())
		return nil
	}
	if _, isDigest := then[digestKey]; isDigest {
		return then
	}
	if e.isOfType(c, stored) {
		c.stocked = decoded{stored, then}
		return then
	}
	typed, err := e.reshaped(then)
	if err != nil {
		// Written by a version with another Go type: then there is only the JSON to compare.
		log.FromContext(ctx).V(1).Info("The last handled configuration does not fit the Go type", "error", err.Error())
		return then
	}
	return typed
}

// isOfType reports whether a stored essence fits the Go type: this process has encoded it from an object of the type. Results of handlers need
// not fit the type. They are part of the essence if they are stored outside the status, or if a handler watches their field.
func (e *Engine) isOfType(c *cycle, stored []byte) bool {
	resultsCount := len(e.Fields) > 0 || len(e.Results) > 0 && e.Results[0] != "status"
	return !resultsCount && e.knowsKept(c) && maphash.Bytes(seed, stored) == c.memory.BaselineHash
}

// decoded is a text with the essence that was decoded from it.
type decoded struct {
	text    []byte
	essence map[string]any
}

// textOf returns the text from which an essence was decoded; nil if that is not known, or if the essence was changed since.
func (d decoded) textOf(essence map[string]any) []byte {
	if d.essence == nil || reflect.ValueOf(d.essence).Pointer() != reflect.ValueOf(essence).Pointer() {
		return nil
	}
	return d.text
}

// reshaped takes an essence through the Go type of the kind, as the object itself was: a field that
// a new version of the type has added is thereby no change (B-32).
func (e *Engine) reshaped(then map[string]any) (map[string]any, error) {
	obj, err := e.revived(then, nil)
	if err != nil {
		return nil, err
	}
	if _, raw := obj.(*unstructured.Unstructured); raw {
		return then, nil
	}
	content, err := patch.Content(obj)
	if err != nil {
		return nil, err
	}
	typed := e.shape.Build(content)
	if statuses, ok := then[essence.ConditionsKey]; ok { // no Go type has them
		typed[essence.ConditionsKey] = statuses
	}
	return typed, nil
}

// revived makes an object of an essence; text is the encoded essence, or nil.
func (e *Engine) revived(then map[string]any, text []byte) (client.Object, error) {
	obj := e.New()
	if u, ok := obj.(*unstructured.Unstructured); ok {
		copied := (&unstructured.Unstructured{Object: then}).DeepCopy()
		delete(copied.Object, essence.ConditionsKey)
		u.Object = copied.Object
	} else {
		if text == nil {
			var err error
			if text, err = json.Marshal(then); err != nil {
				return nil, err
			}
		}
		if err := json.Unmarshal(text, obj); err != nil {
			return nil, err
		}
	}
	e.identify(obj)
	return obj, nil
}
