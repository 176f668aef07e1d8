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

// Reason is the kind of a cause: what has happened to an object.
type Reason string

// The reasons. The first four have handlers.
const (
	Create Reason = "create"
	Update Reason = "update"
	Delete Reason = "delete"
	Resume Reason = "resume"

	Noop Reason = "noop" // the essence has not changed
	Free Reason = "free" // the object is being deleted and does not have our finalizer
	Gone Reason = "gone" // the object does not exist
)

// HasHandlers reports whether handlers can be registered for the reason.
func (r Reason) HasHandlers() bool {
	return r == Create || r == Update || r == Delete || r == Resume
}

// Facts determine the reason. They do not depend on single watch events.
type Facts struct {
	Gone         bool // the object does not exist
	Deleting     bool // the object has a deletion timestamp
	HasFinalizer bool // the object has our finalizer
	HasBaseline  bool // the object has a last-handled configuration
	Changed      bool // the essence differs from the last-handled configuration
	Initial      bool // the object was in the first listing, and this process has not handled it yet
}

// DetectReason returns the reason for these facts.
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

// RunsResumeHandlers reports whether a cause also selects resume handlers. This applies to an object of the first listing until this process has handled
// the object, unless the cause is a creation.
func RunsResumeHandlers(r Reason, f Facts) bool { return f.Initial && r != Create }

// FinalizerAction is a change of the finalizer of an object.
type FinalizerAction string

// The changes of the finalizer.
const (
	KeepFinalizer   FinalizerAction = "keep"
	AddFinalizer    FinalizerAction = "add"
	RemoveFinalizer FinalizerAction = "release"
)

// DecideFinalizer decides whether to add or to remove the finalizer before handlers are called. The finalizer is needed if the object has daemons, timers,
// or delete handlers that are not optional.
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

// Detector detects the causes of the objects of one kind. It is safe for concurrent use.
type Detector struct {
	Name    string // name of the controller, for metrics
	Essence essence.Builder
	// Retype converts an essence to the Go type of the kind and back. A field that a new version of the type has added then does not count as a
	// change.
	Retype func(map[string]any) (map[string]any, error)
	// HasUntypedFields is true if essences may contain fields that the Go type lacks, such as results of handlers.
	HasUntypedFields bool
	// Watched are the additional fields of the essence whose changes are always updates.
	Watched [][]string
	// OwnChanges is true if changes by handlers of this operator also count as updates.
	OwnChanges bool
	// Stateless is true if no handler needs the last-handled configuration. Only deletions are then detected.
	Stateless bool
}

// Input is the state from which [Detector.Detect] computes a cause. All values belong to the same version of the object.
type Input struct {
	Facts                   // Detect computes HasBaseline and Changed and ignores the given values
	Content  map[string]any // the JSON form of the object
	Baseline []byte         // the last-handled configuration; nil if there is none
	Pin      []byte         // the stored pin; nil if there is none
	Progress StoredRecords
	History  *BaselineHistory
	// Replaced is the last baseline of History, if another client has replaced it; nil if it is not known.
	Replaced []byte
	// Edits are the changes by daemons and timers that the baseline may lack.
	Edits []BackgroundEdit
	Log   logr.Logger
	// Unreadable receives the errors of stored data that cannot be decoded. If it is nil, they are logged and counted.
	Unreadable func(error)
}

// StoredRecords describes the stored records of an object.
type StoredRecords interface {
	HasRecords(reason string) bool
	HasAttempts(reason string) bool
}

// ProgressReset is the correction of the stored records that the cause requires.
type ProgressReset int

// The values of ProgressReset.
const (
	KeepProgress     ProgressReset = iota
	RestartUpdate                  // restart the handlers of the update
	RestartAllCauses               // discard all records: they belong to a restored old state of the object
)

// Cause describes what has happened to an object, with the states that handlers receive. Its maps must not be changed.
type Cause struct {
	Reason Reason
	Facts
	// Old is the last-handled essence. It is nil if there is none, or if only its digest is stored.
	Old map[string]any
	// New is the essence to handle. It differs from Live if the object was edited after the cycle began.
	New map[string]any
	// Live is the current essence of the object.
	Live map[string]any
	// Diff is the difference between Old and New. It is empty if Old is unknown.
	Diff diff.Diff

	// PinnedDigest is the digest of the essence to handle, if the object has no room for the essence. New is then Live.
	PinnedDigest string
	// StalePin is true if the object has a pin that is not used.
	StalePin bool
	// Reversed is true if the change of the cycle was undone before all handlers had finished. The cycle then handles the reversal.
	Reversed bool
	// WasReversed is true if an earlier reconcile has reversed the cycle. Some handlers may have seen only the state before the reversal.
	WasReversed bool
	// OldDigest is the digest of the last-handled essence of a reversed cycle, if Old is unknown.
	OldDigest string
	// Seen is the newest state that a finished handler has received, if it is not New.
	Seen *Snapshot

	// Unchanged is true if the last-handled configuration equals the current essence: the stored one, or the one that this process has stored last if another
	// client has replaced it.
	Unchanged bool
	// OutdatedBaseline is true if the engine must store the baseline again, even without a change of the object.
	OutdatedBaseline bool
	// RestoredBaseline is true if another client has restored an old baseline together with the old state of the object.
	RestoredBaseline bool
	// Reset is the correction of the records.
	Reset ProgressReset

	edits    []BackgroundEdit // edits that are merged into Old
	encoded  essence.Encoded  // the last encoded essence
	original essence.Encoded  // the essence that was decoded from the baseline
}

// Detect compares the last-handled essence with the essence to be handled. This is the current essence, unless a running cycle is pinned to another
// one.
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
		c.Old = nil // the essence has changed, and the old essence is unknown
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

// decodeBaseline sets Old. A baseline that cannot be decoded is treated as absent, with a warning.
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
	if in.History.isLast(stored) && !d.HasUntypedFields { // this process has encoded the baseline from an object of the Go type
		c.original = essence.Decoded(stored, old)
		return
	}
	typed, err := d.Retype(old)
	if err != nil {
		// An operator version with another Go type has stored the baseline.
		in.Log.V(1).Info("The last-handled configuration does not fit the Go type", "error", err.Error())
		return
	}
	c.Old = typed
}

// compareDigest reports whether a stored essence is only a digest, and whether it is the digest of the live essence.
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

// IsOldKnown is false if only a digest of the last-handled configuration is stored.
func (c *Cause) IsOldKnown() bool { return c.Old != nil || !c.HasBaseline }

// EncodeEssence encodes an essence of the cause. It keeps the last result, because an essence is compared first and stored later.
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

// StoredTextOf returns the text from which an essence of the cause was decoded, or nil if there is none.
func (c *Cause) StoredTextOf(of map[string]any) []byte { return c.original.TextIfSame(of) }

// CauseAfterWrite returns the cause after a write. handled is the handled essence with the changes of handlers. changed is the patch of
// the content with these changes.
func (d *Detector) CauseAfterWrite(c Cause, content, handled map[string]any, changed patch.MergePatch) Cause {
	c.New, c.Old = handled, d.MergeOwn(content, c.Old, changed)
	c.WasReversed = c.WasReversed || c.Reversed
	c.Reversed, c.OldDigest = false, "" // the write has stored the reversal and its digest
	c.edits, c.OutdatedBaseline = nil, false
	return c
}

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
