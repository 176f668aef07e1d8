package cause

import (
	"hash/maphash"
	"slices"
)

// BaselineHistory describes the baselines that this process has stored on an object. It is empty if a peer may have stored one since.
//
// With it, [Detector.Detect] recognizes clients that restore an old state of the object together with its old annotations: kubectl rollout undo,
// and kubectl apply with a file that was read from the API server.
type BaselineHistory struct {
	// Last is the hash of the baseline that this process has stored last; 0 if it has stored none.
	Last uint64
	// Older contains the hashes of earlier baselines, the most recent one first.
	Older []uint64
	// Replaced is the last baseline, if another client has replaced it.
	Replaced []byte
}

// maxOlder limits the hashes of a history.
const maxOlder = 16

// seed is the seed of the hashes in this process.
var seed = maphash.MakeSeed()

// With returns the history after another baseline was stored. before is the previous baseline of the object; nil if there was none.
func (h BaselineHistory) With(stored, before []byte) BaselineHistory {
	last := maphash.Bytes(seed, stored)
	if last == h.Last {
		return h
	}
	former := h.Last
	if former == 0 && before != nil {
		former = maphash.Bytes(seed, before) // an earlier process has stored the previous baseline
	}
	if former != 0 && former != last {
		h.Older = slices.Insert(slices.Clone(h.Older), 0, former)
		h.Older = h.Older[:min(len(h.Older), maxOlder)]
	}
	h.Last = last
	return h
}

// isLast reports whether a baseline is the last one that this process has stored.
func (h BaselineHistory) isLast(stored []byte) bool {
	return h.Last != 0 && maphash.Bytes(seed, stored) == h.Last
}

// BaselineReplaced reports whether a baseline differs from the last one that this process has stored.
func (h BaselineHistory) BaselineReplaced(stored []byte) bool {
	return h.Last != 0 && !h.isLast(stored)
}

// resolveBaseline returns the baseline to compare with: the stored baseline, unless another client has restored an old one.
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
	if in.History.isLast(in.History.Replaced) && slices.Contains(in.History.Older, maphash.Bytes(seed, stored)) {
		replaced = in.History.Replaced
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
