package cause

import (
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/go-logr/logr"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// Reason says what happened to an object.
type Reason string

// The reasons. Handlers can be registered for the first four.
const (
	Create Reason = "create"
	Update Reason = "update"
	Delete Reason = "delete"
	Resume Reason = "resume"

	// Revision means that nothing has happened to the object, but that handlers have newer revisions than it was handled with.
	Revision Reason = "revision"

	Noop Reason = "noop" // the essence has not changed
	Free Reason = "free" // the object is being deleted and does not have our finalizer
	Gone Reason = "gone" // the object does not exist
)

// HasHandlers reports whether handlers can be called for the reason.
func (r Reason) HasHandlers() bool {
	return r == Create || r == Update || r == Delete || r == Resume || r == Revision
}

// Facts determine the reason. They describe the object's state, and don't depend on individual watch events.
type Facts struct {
	Gone         bool // the object does not exist
	Deleting     bool // the object has a deletion timestamp
	HasFinalizer bool // the object has our finalizer
	HasBaseline  bool // the object has a last-handled configuration
	Changed      bool // the essence differs from the last-handled configuration
	Initial      bool // the object was in the first list, and this process has not handled it yet
}

// DetectReason derives the reason from the facts.
func (f Facts) DetectReason() Reason {
	switch {
	case f.Gone:
		return Gone
	case f.Deleting && !f.HasFinalizer:
		return Free
	case f.Deleting:
		return Delete
	case !f.HasBaseline:
		return Create
	case f.Changed:
		return Update
	case f.Initial:
		return Resume
	default:
		return Noop
	}
}

// RunsResumeHandlers reports whether resume handlers are selected as well. They are called for an object of the first list until this
// process has handled it, unless the object is being created.
func RunsResumeHandlers(r Reason, f Facts) bool { return f.Initial && r != Create }

// FinalizerAction says what to do with an object's finalizer.
type FinalizerAction string

// The finalizer actions.
const (
	KeepFinalizer   FinalizerAction = "keep"
	AddFinalizer    FinalizerAction = "add"
	RemoveFinalizer FinalizerAction = "release"
)

// DecideFinalizer decides whether to add or remove the finalizer before handlers are called. It is needed if the object has daemons,
// timers, or delete handlers that aren't optional.
func DecideFinalizer(f Facts, needed bool) FinalizerAction {
	switch {
	case f.Gone:
		return KeepFinalizer
	case needed && !f.HasFinalizer && !f.Deleting:
		return AddFinalizer
	case !needed && f.HasFinalizer:
		return RemoveFinalizer
	default:
		return KeepFinalizer
	}
}

// Detector detects causes for the objects of one kind. It is safe for concurrent use.
type Detector struct {
	Name    string // the controller's name, for metrics
	Essence essence.Builder
	// Retype converts an essence to the kind's Go type and back, so that a field added in a newer version of the type doesn't count as a
	// change.
	Retype func(map[string]any) (map[string]any, error)
	// HasUntypedFields is true if essences may contain fields that the Go type lacks, such as handlers' results.
	HasUntypedFields bool
	// Watched are those additional fields of the essence whose changes are always updates, even if our own handlers make them.
	Watched [][]string
	// OwnChanges is true if changes made by this operator's handlers count as updates, too.
	OwnChanges bool
	// Stateless is true if no handler needs the last-handled configuration. Then only deletions are detected.
	Stateless bool
	// Lean is true if the digest of an unchanged object's baseline stands for the whole baseline.
	Lean bool
}

// Input is what [Detector.Detect] needs to compute a cause. All values must come from the same version of the object.
type Input struct {
	Facts                   // Detect ignores the given HasBaseline and Changed, and computes them itself
	Content  map[string]any // the JSON form of the object
	Baseline []byte         // the last-handled configuration; nil if there is none
	Pin      []byte         // the stored pin; nil if there is none
	Progress StoredRecords
	History  *BaselineHistory
	// Replaced is the last baseline in History if another client has replaced it, or nil if it isn't known.
	Replaced []byte
	// Edits are changes made by daemons and timers that the baseline may not contain yet.
	Edits []BackgroundEdit
	Log   logr.Logger
	// Unreadable is called if stored data cannot be decoded. If it is nil, such errors are logged and counted.
	Unreadable func(error)
}

// StoredRecords answers questions about an object's stored records.
type StoredRecords interface {
	HasRecords(reason string) bool
	HasAttempts(reason string) bool
}

// ProgressReset says how the cause requires the stored records to be corrected.
type ProgressReset int

// The values of ProgressReset.
const (
	KeepProgress     ProgressReset = iota
	RestartUpdate                  // restart the update handlers
	RestartAllCauses               // discard all records, because they came back with an old state of the object
)

// Cause describes what happened to an object, with the states that handlers receive. Its maps must not be changed.
type Cause struct {
	Reason Reason
	// Requested is true if nothing has happened to the object: users have asked for calls of handlers, or handlers have newer revisions.
	Requested bool
	Facts
	// Old is the last-handled essence, or nil if there is none or only its digest is stored.
	Old map[string]any
	// New is the essence to handle. It differs from Live if the object was edited after the cycle began.
	New map[string]any
	// Live is the object's current essence.
	Live map[string]any
	// Diff is the difference between Old and New. It is empty if Old is unknown.
	Diff diff.Diff

	// PinnedDigest is the digest of the essence to handle, if only that is stored. New is then the same as Live.
	PinnedDigest string
	// StalePin is true if the object has a pin that no longer applies.
	StalePin bool
	// Reversed is true if the cycle's change was undone before all handlers had finished. The cycle then handles the reversal.
	Reversed bool
	// WasReversed is true if an earlier reconcile has already reversed the cycle. Some handlers may have seen only the state before that.
	WasReversed bool
	// OldDigest is the digest of a reversed cycle's last-handled essence, if Old is unknown.
	OldDigest string
	// Seen is the newest state that a finished handler has received, if that isn't New.
	Seen *Snapshot

	// Unchanged is true if the current essence equals the last-handled configuration. If another client has replaced that, the one this
	// process stored last may count instead.
	Unchanged bool
	// OutdatedBaseline is true if the engine must store the baseline again, even if the object hasn't changed.
	OutdatedBaseline bool
	// RestoredBaseline is true if another client has restored an old state of the object, including its baseline.
	RestoredBaseline bool
	// Reset says how to correct the records.
	Reset ProgressReset

	edits    []BackgroundEdit // edits that are merged into Old
	encoded  essence.Encoded  // the last encoded essence
	original essence.Encoded  // the essence that was decoded from the baseline
}

// Detect compares the last-handled essence with the one to handle. That is the current essence, unless a running cycle has pinned a
// different one.
func (d *Detector) Detect(in Input) Cause {
	live := d.Essence.Build(in.Content)
	c := Cause{Facts: in.Facts, New: live, Live: live}
	if d.Stateless {
		c.HasBaseline, c.Changed, c.Initial, c.Unchanged = true, false, false, true
		c.Reason = c.Facts.DetectReason()
		return c
	}
	stored := d.resolveBaseline(&c, in) // sets Unchanged
	switch {
	case c.Unchanged:
		c.Old = live
	case stored != nil:
		d.decodeBaseline(&c, in, stored)
	}
	d.mergeEdits(&c, in.Edits)
	isDigest, isSameDigest := compareDigest(c.Old, live)
	switch {
	case isSameDigest:
		c.Old = live
	case isDigest:
		c.Old = nil // it has changed, but we don't know from what
	}
	c.HasBaseline = c.Old != nil || isDigest
	if in.Pin != nil {
		d.applyPin(&c, in, stored)
	}
	switch {
	case c.PinnedDigest != "" || c.Reversed || isDigest && !isSameDigest:
		c.Changed = true
	case c.Old != nil && !(c.Unchanged && !c.OutdatedBaseline || isSameDigest) || c.WasEdited():
		c.Changed = c.Old != nil && !diff.Equal(c.Old, c.New)
	default:
		c.Changed = false
	}
	c.Reason = c.Facts.DetectReason()
	switch {
	case !c.Reason.HasHandlers():
	case !c.HasBaseline:
		c.Diff = diff.Of(nil, c.New)
	case c.Old != nil && c.Changed:
		c.Diff = diff.Of(c.Old, c.New)
	}
	return c
}

// decodeBaseline sets Old. A baseline that cannot be decoded is reported and treated as absent.
func (d *Detector) decodeBaseline(c *Cause, in Input, stored []byte) {
	old, err := d.Essence.Decode(stored)
	if err != nil {
		if in.Unreadable != nil {
			in.Unreadable(fmt.Errorf("the last-handled configuration is unreadable and treated as absent: %w", err))
			return
		}
		metrics.UnreadableState.WithLabelValues(d.Name).Inc()
		in.Log.Info("The last-handled configuration is unreadable and treated as absent", "error", err.Error())
		return
	}
	c.Old = old
	if _, isDigest := old[essence.DigestDocumentKey]; isDigest {
		return
	}
	if in.History.isLast(stored) && !d.HasUntypedFields { // we encoded it from the Go type, so it fits
		c.original = essence.Decoded(stored, old)
		return
	}
	typed, err := d.Retype(old)
	if err != nil {
		// It comes from an operator version with a different Go type.
		in.Log.V(1).Info("The last-handled configuration does not fit the Go type", "error", err.Error())
		return
	}
	c.Old = typed
}

// compareDigest reports whether only a digest of the essence is stored, and whether it matches the live essence.
func compareDigest(stored, live map[string]any) (isDigest, isSame bool) {
	digest, ok := stored[essence.DigestDocumentKey].(string)
	if !ok || len(stored) != 1 {
		return false, false
	}
	return true, digest == essence.DigestOf(live)
}

// WasEdited reports whether the object was edited after the cycle began.
func (c *Cause) WasEdited() bool {
	return c.PinnedDigest != "" || !same(c.New, c.Live) && !diff.Equal(c.New, c.Live)
}

// IsOldKnown returns false if only a digest of the last-handled configuration is stored.
func (c *Cause) IsOldKnown() bool { return c.Old != nil || !c.HasBaseline }

// EncodeEssence encodes an essence of the cause. It keeps the last result, because an essence is usually compared first and then stored.
func (c *Cause) EncodeEssence(of map[string]any) ([]byte, error) {
	if text := c.encoded.TextIfSame(of); text != nil {
		return text, nil
	}
	encoded, err := essence.Encoding(of)
	if err == nil {
		c.encoded = encoded
	}
	return encoded.TextIfSame(of), err
}

// StoredTextOf returns the text that an essence of the cause was decoded from, or nil if there is none.
func (c *Cause) StoredTextOf(of map[string]any) []byte { return c.original.TextIfSame(of) }

// CauseAfterWrite returns the cause as it is after a write. handled is the handled essence including the handlers' changes, and changed is
// the patch with these changes.
func (d *Detector) CauseAfterWrite(c Cause, content, handled map[string]any, changed patch.MergePatch) Cause {
	c.New, c.Old = handled, d.MergeOwn(content, c.Old, changed)
	c.WasReversed = c.WasReversed || c.Reversed
	c.Reversed, c.OldDigest = false, "" // the write has stored the reversal and its digest
	c.edits, c.OutdatedBaseline = nil, false
	return c
}

// BaselineHistory remembers the baselines this process has stored on an object. It is nil if there was none yet, or if a peer may have
// stored a newer one. A history is immutable.
//
// [Detector.Detect] uses it to recognize clients that restore an old state of the object together with its old annotations, as kubectl
// rollout undo does, or kubectl apply with a manifest that was read from the API server.
type BaselineHistory struct {
	// Last is the hash of the baseline that this process stored last.
	Last uint64
	// Older contains the hashes of earlier baselines, most recent first.
	Older []uint64
}

// maxOlder limits the number of older hashes.
const maxOlder = 16

// seed is shared by all hashes, so that they can be compared.
var seed = maphash.MakeSeed()

// With returns the history after storing a baseline. before is the object's previous baseline, or nil.
func (h *BaselineHistory) With(stored, before []byte) *BaselineHistory {
	next := &BaselineHistory{Last: maphash.Bytes(seed, stored)}
	switch {
	case h.isLast(stored):
		return h
	case h != nil:
		next.Older = append([]uint64{h.Last}, h.Older[:min(len(h.Older), maxOlder-1)]...)
	case before != nil && !next.isLast(before): // the previous one is from an earlier process
		next.Older = []uint64{maphash.Bytes(seed, before)}
	}
	return next
}

// isLast reports whether this is the baseline that this process stored last.
func (h *BaselineHistory) isLast(stored []byte) bool {
	return h != nil && maphash.Bytes(seed, stored) == h.Last
}

// BaselineReplaced reports whether the stored baseline differs from the one that this process stored last.
func (h *BaselineHistory) BaselineReplaced(stored []byte) bool {
	return h != nil && !h.isLast(stored)
}

// resolveBaseline returns the baseline to compare with. That is the stored one, unless another client has restored an old one. It also sets
// Unchanged.
func (d *Detector) resolveBaseline(c *Cause, in Input) (baseline []byte) {
	stored := in.Baseline
	if stored == nil {
		return nil
	}
	live, err := c.EncodeEssence(c.Live)
	if d.Lean && err == nil && essence.IsDigestDocument(stored) && essence.BaselineDigest(stored) == essence.Digest(live) {
		stored = live
	}
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
		// After kubectl rollout undo, Kubernetes keeps restoring old baselines on ReplicaSets, although the objects themselves haven't
		// changed.
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
