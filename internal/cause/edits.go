package cause

import (
	"reflect"

	"github.com/go-logr/logr"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// BackgroundEdit is a change that a daemon or a timer has made to an object.
type BackgroundEdit struct {
	Base  map[string]any // the JSON form of the object that Patch was computed for
	Patch patch.MergePatch
}

// MergeOwn returns the essence with the changes that this operator's handlers have made to the content, so that they don't count as
// updates. It leaves out other clients' changes in the same lists. Watched fields and conditions stay as they are, because changing them is
// always an update.
func (d *Detector) MergeOwn(content, into map[string]any, changed patch.MergePatch) map[string]any {
	if len(changed) == 0 || into == nil || d.OwnChanges {
		return into
	}
	out := d.Essence.Build(changed.WithoutField("status", "conditions").Rebase(content, into).Apply(into))
	essence.ReplaceFields(out, into, d.Watched)
	if statuses, ok := into[essence.ConditionsKey]; ok {
		out[essence.ConditionsKey] = statuses
	} else {
		delete(out, essence.ConditionsKey)
	}
	return out
}

// MergePart returns the cause after only some of the handlers' changes were written: those that a running handler has flushed, or those of
// a single handler.
func (d *Detector) MergePart(c Cause, content map[string]any, changed patch.MergePatch) Cause {
	c.New, c.Old, c.Live = d.MergeOwn(content, c.New, changed), d.MergeOwn(content, c.Old, changed), d.MergeOwn(content, c.Live, changed)
	c.OutdatedBaseline = true
	return c
}

// mergeEdits merges daemons' and timers' changes into the last-handled essence, unless the stored baseline already equals the current
// essence.
func (d *Detector) mergeEdits(c *Cause, edits []BackgroundEdit) {
	if c.Unchanged || len(edits) == 0 {
		return
	}
	for _, edit := range edits {
		if stored, ok := c.Old[essence.DigestDocumentKey].(string); ok {
			if base := d.Essence.Build(edit.Base); stored == essence.DigestOf(base) {
				c.Old = map[string]any{essence.DigestDocumentKey: essence.DigestOf(d.MergeOwn(edit.Base, base, edit.Patch))}
			}
			continue
		}
		c.Old = d.MergeOwn(edit.Base, c.Old, edit.Patch)
	}
	c.edits, c.OutdatedBaseline = edits, true
}

// MergeStored merges the handlers' changes into the cause as the API server has stored them. It reports whether they differ from what was
// sent, because an admission webhook or a schema default may have altered them. The difference doesn't count as an update.
func (d *Detector) MergeStored(c Cause, content map[string]any, sent patch.MergePatch, log logr.Logger) (merged Cause, differs bool) {
	if d.OwnChanges || c.Reason == Delete {
		return c, false // the difference counts as an update, or the baseline is about to disappear
	}
	if rest := sent.WithoutField("status"); len(rest) == 0 && len(d.Essence.Fields) == 0 {
		return c, false // no field of the essence was sent
	}
	live := d.Essence.Build(content)
	wanted := d.MergeOwn(content, live, sent)
	if diff.Equal(wanted, live) && !sent.HasNull() {
		return c, false
	}
	observed, wants := patch.Diff(wanted, live), patch.Diff(live, wanted)
	if len(observed) == 0 {
		return c, false
	}
	if observed.HasValues() && wants.HasValues() { // otherwise the fields were dropped or restored, which is logged elsewhere
		log.Info("The API server has stored other values than handlers have set: does a webhook or a default of the schema change them?",
			"fields", guard.ShortenList(wants.Paths())) // without the values, which may be confidential
	}
	c.New = d.Essence.Build(observed.Apply(c.New))
	if c.Old != nil {
		c.Old = d.Essence.Build(observed.Apply(c.Old))
	}
	return c, true
}

// AffectsEssence reports whether a patch of the content changes its essence.
func (d *Detector) AffectsEssence(content map[string]any, changed patch.MergePatch) bool {
	return !diff.Equal(d.Essence.Build(content), d.Essence.Build(changed.Apply(content)))
}

// StatusAffectsEssence reports whether changing the status changes the essence.
func (d *Detector) StatusAffectsEssence(content map[string]any, status any) bool {
	if len(d.Essence.Fields)+len(d.Essence.Conditions) == 0 {
		return false
	}
	return d.AffectsEssence(content, patch.MergePatch{"status": status})
}

// same reports whether two essences are the same map.
func same(a, b map[string]any) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}
