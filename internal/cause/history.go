package cause

import (
	"hash/maphash"
	"slices"
)

// BaselineHistory describes the baselines that this process has stored on an object. It is nil without such a baseline, or if a peer may have stored a newer one.
// A history does not change.
//
// With the history, [Detector.Detect] recognizes clients that restore an old state of the object together with its old annotations: kubectl rollout undo,
// and kubectl apply with a file that was read from the API server.
type BaselineHistory struct {
	// Last is the hash of the baseline that this process has stored last.
	Last uint64
	// Older contains the hashes of earlier baselines, the most recent one first.
	Older []uint64
}

// maxOlder limits the hashes of a history.
const maxOlder = 16

// seed is the seed of the hashes in this process.
var seed = maphash.MakeSeed()

// With returns the history after another baseline was stored. before is the previous baseline of the object; nil if there was none.
func (h *BaselineHistory) With(stored, before []byte) *BaselineHistory {
	next := &BaselineHistory{Last: maphash.Bytes(seed, stored)}
	switch {
	case h.isLast(stored):
		return h
	case h != nil:
		next.Older = append([]uint64{h.Last}, h.Older[:min(len(h.Older), maxOlder-1)]...)
	case before != nil && !next.isLast(before): // an earlier process has stored the previous baseline
		next.Older = []uint64{maphash.Bytes(seed, before)}
	}
	return next
}

// isLast reports whether a baseline is the last one that this process has stored.
func (h *BaselineHistory) isLast(stored []byte) bool {
	return h != nil && maphash.Bytes(seed, stored) == h.Last
}

// BaselineReplaced reports whether a baseline differs from the last one that this process has stored.
func (h *BaselineHistory) BaselineReplaced(stored []byte) bool {
	return h != nil && !h.isLast(stored)
}

// resolveBaseline returns the baseline to compare with: the stored baseline, unless another client has restored an old one. It also sets Unchanged.
func (d *Detector) resolveBaseline(c *Cause, in Input) (baseline []byte) {
	stored := in.Baseline
	if stored == nil {
		return nil
	}
	live, err := c.EncodeEssence(c.Live)
	c.Unchanged = err == nil && c.encoded.Is(stored)
	if !in.History.BaselineReplaced(stored) {
		return stored
	}
	var replaced []byte
	if in.History.isLast(in.Replaced) && slices.Contains(in.History.Older, maphash.Bytes(seed, stored)) {
		replaced = in.Replaced
	}
	switch {
	case !c.Unchanged && err == nil && in.History.isLast(live):
		// After kubectl rollout undo, Kubernetes repeatedly restores old baselines of replica sets. The object itself is unchanged.
		in.Log.V(1).Info("Another client has replaced the last-handled configuration; using the one that this process stored")
		c.Unchanged = true
		if replaced != nil {
			return replaced
		}
	case replaced != nil:
		in.Log.Info("Another client has restored an old state of the object with its last-handled configuration; comparing with the newest one")
		c.Unchanged, c.RestoredBaseline, c.OutdatedBaseline, c.Reset = false, true, true, RestartAllCauses
		return replaced
	}
	return stored
}
