package engine

import (
	"bytes"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// The API server has a limit for all annotations of an object together. Other clients need room, too: optional parts of ours are stored
// only up to the budget. The last-handled essence may take all the room that there is, as in kopf.
const (
	annotationLimit  = 256 << 10
	annotationBudget = 240 << 10
)

// remember stores an essence as the last handled one. If the object has no room for it, its digest is stored: that still tells changed
// from unchanged. Reports whether that was so.
//
// In the middle of a cycle, an essence that was stored as a whole stays whole: records that do not fit beside it are kept in memory.
func (e *Engine) remember(c *cycle, kept client.Object, handled map[string]any) (shortened bool, err error) {
	text, err := c.cause.Encode(handled)
	if err != nil {
		return false, fmt.Errorf("the essence has no JSON form: %w", err)
	}
	stored, before := e.lastHandled.FetchStored(kept), sizeOf(kept)
	staysWhole := c.cause.Reason.HasHandlers() && !c.closed() && e.lastHandled.HasFullEssence(kept)
	e.Baseline.Store(kept, text)
	if size := sizeOf(kept); size == before || size+c.added <= annotationLimit || staysWhole {
		return false, nil
	}
	return true, e.rememberDigest(c, kept, essence.Digest(text), stored)
}

// rememberDigest stores the digest of the last-handled essence, in addition to the text that was stored before.
func (e *Engine) rememberDigest(c *cycle, kept client.Object, digest string, stored []byte) error {
	return e.lastHandled.SupersedeByDigest(kept, digest, stored, func(obj client.Object) bool { return sizeOf(obj)+c.added <= annotationBudget })
}

func sizeOf(obj client.Object) int {
	size := 0
	for key, value := range obj.GetAnnotations() {
		size += len(key) + len(value)
	}
	return size
}

// annotationsSize is [sizeOf] for the JSON form of an object.
func annotationsSize(content map[string]any) int {
	size := 0
	annotations, _ := diff.Lookup(content, "metadata", "annotations")
	all, _ := annotations.(map[string]any)
	for key, value := range all {
		text, _ := value.(string)
		size += len(key) + len(text)
	}
	return size
}

// stores tells which baseline the object is to have by a write; nil: the one that is there, and was the last one.
func (e *Engine) stores(c *cycle, kept client.Object) []byte {
	stored := e.Baseline.Fetch(kept)
	if !c.cause.RestoredBaseline && bytes.Equal(stored, e.Baseline.Fetch(c.before)) {
		return nil
	}
	return stored
}

// keeps remembers the baseline that was written.
func (e *Engine) keeps(c *cycle, stored []byte) {
	if stored == nil {
		return
	}
	c.memory.Baselines = c.memory.Baselines.With(stored, e.Baseline.Fetch(c.before))
	c.memory.PausesAtBaseline = e.pauses.Load()
	e.states.NoteStoredBaseline(c.before.GetUID(), stored)
}
