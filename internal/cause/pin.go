package cause

import (
	"encoding/json"
	"fmt"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// Pin is the essence that a cycle works on. If the cycle takes more than one reconcile, the engine stores the pin on the object, so that
// edits made during the cycle wait for the next one.
type Pin struct {
	// Since is the digest of the baseline that the cycle started from. If the object has a different baseline by now, the pin is ignored.
	Since string `json:"since,omitempty"`
	Snapshot
	// Turned is true if the cycle handles the reversal of its original change.
	Turned bool `json:"turned,omitempty"`
	// Seen is the newest state that a finished handler has received, if that isn't the pinned essence. If it is undone, the handler must
	// get one more update.
	Seen *Snapshot `json:"seen,omitempty"`
	// Ahead is true if the pin was stored before the records.
	Ahead bool `json:"ahead,omitempty"`
}

// Snapshot is a stored essence, or only its digest if the essence doesn't fit on the object or must not be stored there.
type Snapshot struct {
	Digest  string          `json:"digest,omitempty"`
	Essence json.RawMessage `json:"essence,omitempty"`
}

// snapshotOf returns the snapshot of an essence, or byDefault if the essence cannot be encoded.
func snapshotOf(of map[string]any, byDefault Snapshot) Snapshot {
	text, err := essence.Encode(of)
	if err != nil {
		return byDefault
	}
	return Snapshot{Digest: essence.Digest(text), Essence: text}
}

// Encode encodes a pin for an object with the given baseline.
func (p Pin) Encode(baseline []byte) ([]byte, error) {
	p.Since = digestOf(baseline)
	return json.Marshal(p)
}

// WithoutEssences returns the pin with nothing but digests.
func (p Pin) WithoutEssences() Pin {
	p.Essence = nil
	if p.Seen != nil {
		p.Seen = &Snapshot{Digest: p.Seen.Digest}
	}
	return p
}

func digestOf(baseline []byte) string {
	if baseline == nil {
		return ""
	}
	return essence.Digest(baseline)
}

// applyPin lets the cause continue a cycle with the pinned state. A pin is stale if the baseline has changed since, or if the object is
// being deleted. Without records for the reason it is stale as well, unless Ahead or Seen is set.
func (d *Detector) applyPin(c *Cause, in Input, baseline []byte) {
	c.StalePin = true
	var p Pin
	if err := json.Unmarshal(in.Pin, &p); err != nil {
		if in.Unreadable != nil {
			in.Unreadable(fmt.Errorf("the pinned configuration is unreadable and treated as absent: %w", err))
			return
		}
		metrics.UnreadableState.WithLabelValues(d.Name).Inc()
		in.Log.Info("The pinned configuration is unreadable and treated as absent", "error", err.Error())
		return
	}
	p.Snapshot = d.withEdits(c, p.Snapshot)
	if p.Seen != nil {
		p.Seen = new(d.withEdits(c, *p.Seen))
	}
	reason := Create
	if c.HasBaseline {
		reason = Update
	}
	keepsProgress := c.Reset == KeepProgress
	hasBegun := p.Ahead || keepsProgress && in.Progress.HasRecords(string(reason))
	if c.Deleting || p.Since != digestOf(baseline) || !hasBegun && p.Seen == nil {
		return // the pin belongs to a different cycle
	}
	c.WasReversed, c.Seen = p.Turned, p.Seen
	isUndone := c.Old != nil && diff.Equal(c.Old, c.Live)
	switch {
	case hasBegun && p.Digest == essence.DigestOf(c.Live): // the cycle continues, and the object was not edited
		c.StalePin = false
	case isUndone && hasBegun: // the change was undone during the cycle
		if p.Ahead || p.Turned || p.Seen != nil || keepsProgress && in.Progress.HasAttempts(string(reason)) {
			d.reverse(c, p.Snapshot) // otherwise no handler has seen the change
		}
	case isUndone: // the change was undone after the cycle, but a handler has seen it
		d.reverse(c, *p.Seen)
	case hasBegun: // the object was edited: the cycle continues with the pinned essence
		c.StalePin = false
		if c.New = d.essenceOf(p.Snapshot); c.New == nil {
			c.New, c.PinnedDigest = c.Live, p.Digest
		}
	default:
		// The next cycle starts from the current state. Handlers must be called if that is undone.
		c.StalePin, c.WasReversed, c.Seen = false, true, nil
	}
}

// reverse makes the cause handle the reversal of a change, because handlers that have seen the change must see it undone.
func (d *Detector) reverse(c *Cause, from Snapshot) {
	c.StalePin, c.Reversed, c.Seen = false, true, nil
	if c.Old = d.essenceOf(from); c.Old == nil {
		c.OldDigest = from.Digest
	}
	c.Reset = max(c.Reset, RestartUpdate)
}

// essenceOf decodes a snapshot. It returns nil for a snapshot with only a digest, and for one that cannot be decoded.
func (d *Detector) essenceOf(s Snapshot) map[string]any {
	if s.Essence == nil {
		return nil
	}
	decoded, err := d.Essence.Decode(s.Essence)
	if err != nil {
		return nil
	}
	if typed, err := d.Retype(decoded); err == nil {
		return typed
	}
	return decoded
}

// withEdits merges daemons' and timers' changes into a snapshot.
func (d *Detector) withEdits(c *Cause, s Snapshot) Snapshot {
	merged := d.essenceOf(s)
	if merged == nil || len(c.edits) == 0 {
		return s
	}
	for _, edit := range c.edits {
		merged = d.MergeOwn(edit.Base, merged, edit.Patch)
	}
	return snapshotOf(merged, s)
}

// WithSeen returns the cause after a handler has finished. If the object was edited after the cycle began, the handler may have seen the
// edit. That doesn't matter for resume handlers, which are called for no change.
func (c Cause) WithSeen() Cause {
	if c.Reason == Delete || c.Reason == Resume || !c.WasEdited() {
		return c
	}
	if seen := snapshotOf(c.Live, Snapshot{}); seen.Digest != "" {
		c.Seen = &seen
	}
	return c
}

// WithReason returns the cause with a different reason.
func (c Cause) WithReason(reason Reason) Cause {
	c.Reason, c.Requested = reason, false
	return c
}

// Request returns the cause as a request to call handlers for a reason, although nothing has happened to the object.
func (c Cause) Request(reason Reason) Cause {
	c.Reason, c.Requested = reason, true
	return c
}

// AsUnchanged returns the cause for a reason that doesn't depend on a change. The change remains for a later cause.
func (c Cause) AsUnchanged(reason Reason) Cause {
	c.Reason, c.Changed, c.New, c.Diff = reason, false, c.Old, nil
	return c
}

// Purpose returns what the handlers' records store as their cause. It is [Noop] for a user's request, so that a success on request doesn't
// count for a later edit.
func (c *Cause) Purpose() string {
	if c.Requested && c.Reason != Revision {
		return string(Noop)
	}
	return string(c.Reason)
}

// HasPin reports whether an unfinished cycle pins the essence that it handles. A request pins nothing, because an edit must not wait for it.
func (c *Cause) HasPin() bool { return !c.Requested && (c.Reason == Create || c.Reason == Update) }

// PinOf returns the pin for the next reconciles of an unfinished cycle, or nil if there is nothing to pin.
func (c *Cause) PinOf(handled map[string]any) (*Pin, error) {
	if !c.HasPin() {
		return c.FinalPin(handled), nil
	}
	p := &Pin{Snapshot: Snapshot{Digest: c.PinnedDigest}, Turned: c.Reversed || c.WasReversed, Seen: c.Seen}
	if c.PinnedDigest == "" {
		text, err := c.EncodeEssence(handled)
		if err != nil {
			return nil, err
		}
		p.Snapshot = Snapshot{essence.Digest(text), text}
	}
	return p, nil
}

// PinAhead returns the pin for a write that comes before the records are written.
func (c *Cause) PinAhead() *Pin {
	return &Pin{Snapshot: snapshotOf(c.New, Snapshot{}), Turned: c.Reversed || c.WasReversed, Seen: c.Seen, Ahead: true}
}

// FinalPin returns the pin that stays on the object after a cycle. It is nil unless a handler has seen a state other than the handled one.
func (c *Cause) FinalPin(handled map[string]any) *Pin {
	if c.Seen == nil || c.Reason == Delete || c.PinnedDigest == "" && c.Seen.Digest == essence.DigestOf(handled) {
		return nil
	}
	return &Pin{Seen: c.Seen}
}
