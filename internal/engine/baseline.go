package engine

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"slices"

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

// digestKey is the only field of a baseline that is not an essence but the digest of one.
const digestKey = essence.DigestDocumentKey

// remember stores an essence as the last handled one. If the object has no room for it, its digest is stored: that still tells changed
// from unchanged. Reports whether that was so.
//
// In the middle of a cycle, an essence that was stored as a whole stays whole: records that do not fit beside it are kept in memory.
func (e *Engine) remember(c *cycle, kept client.Object, handled map[string]any) (shortened bool, err error) {
	text, err := c.encode(handled)
	if err != nil {
		return false, fmt.Errorf("the essence has no JSON form: %w", err)
	}
	stored, before := e.lastHandled.FetchStored(kept), sizeOf(kept)
	staysWhole := c.reason.HasHandlers() && !c.closed() && e.lastHandled.HasFullEssence(kept)
	e.Baseline.Store(kept, text)
	if size := sizeOf(kept); size == before || size+c.added <= annotationLimit || staysWhole {
		return false, nil
	}
	return true, e.rememberDigest(c, kept, digest(text), stored)
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

// digest stands for a text of any length.
func digest(text []byte) string { return essence.Digest(text) }

// digestOf is the digest of an essence; empty if it has no JSON form.
func digestOf(of map[string]any) string {
	text, err := essence.Encode(of)
	if err != nil {
		return ""
	}
	return digest(text)
}

// isDigest reports whether a stored essence is only a digest, and whether it is that of the present one.
func isDigest(then, now map[string]any) (is, same bool) {
	stored, ok := then[digestKey].(string)
	if !ok || len(then) != 1 {
		return false, false
	}
	return true, stored == digestOf(now)
}

// seed is that of the hashes of this process.
var seed = maphash.MakeSeed()

// stores tells which baseline the object is to have by a write; nil: the one that is there, and was the last one.
func (e *Engine) stores(c *cycle, kept client.Object) []byte {
	stored := e.Baseline.Fetch(kept)
	if !c.putBack && bytes.Equal(stored, e.Baseline.Fetch(c.before)) {
		return nil
	}
	return stored
}

// maxPast is how many baselines an old one may be from.
const maxPast = 16

// keeps remembers the baseline that was written.
func (e *Engine) keeps(c *cycle, stored []byte) {
	if stored == nil {
		return
	}
	m := c.memory
	if kept := maphash.Bytes(seed, stored); kept != m.BaselineHash {
		former := m.BaselineHash
		if was := e.Baseline.Fetch(c.before); former == 0 && was != nil {
			former = maphash.Bytes(seed, was) // a process before this one has stored it
		}
		if former != 0 && former != kept {
			m.OldBaselineHashes = slices.Insert(m.OldBaselineHashes, 0, former)[:min(len(m.OldBaselineHashes)+1, maxPast)]
		}
		m.BaselineHash = kept
	}
	m.PausesAtBaseline = e.pauses.Load()
	e.states.NoteStoredBaseline(c.before.GetUID(), stored)
}

// replaced returns the baseline that this process has stored last, if somebody has put an older one of ours there instead, with what else the object
// was at that time: kubectl rollout undo does so, and who applies a file that was read from the server. nil: that is not so, or not known.
func (e *Engine) replaced(c *cycle, stored []byte) []byte {
	m := c.memory
	is := maphash.Bytes(seed, stored)
	if stored == nil || !e.knowsKept(c) || is == m.BaselineHash || !slices.Contains(m.OldBaselineHashes, is) {
		return nil
	}
	if was := e.states.BaselineBeforeReplacement(c.before.GetUID()); was != nil && maphash.Bytes(seed, was) == m.BaselineHash {
		return was
	}
	return nil
}

// isKept reports whether the object is as the baseline has it that this process has stored last, although another one is
// there now: somebody has put an old one there. Kubernetes does so to replica sets, again and again, after a rollout was undone.
func (e *Engine) isKept(c *cycle, stored []byte) bool {
	if !e.knowsKept(c) || maphash.Bytes(seed, stored) == c.memory.BaselineHash {
		return false
	}
	live, err := c.encode(c.live)
	return err == nil && maphash.Bytes(seed, live) == c.memory.BaselineHash
}

// knowsKept reports whether the last baseline of the object is the one that this process has stored: since a pause it may be
// that of a peer.
func (e *Engine) knowsKept(c *cycle) bool {
	return c.memory.BaselineHash != 0 && c.memory.PausesAtBaseline == e.pauses.Load()
}
