package commit

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// Memory is what the process remembers about the writes to one object. Only the object's worker uses it.
type Memory struct {
	// Overlay is the framework's part if the API server has rejected it, and nil if it is stored.
	Overlay *Overlay
	// Remote is the framework's part if it is stored outside of the object, or nil if it isn't known.
	Remote *RemotePart
	// Baselines remembers the baselines this process has stored. It is nil until there is one.
	Baselines *cause.BaselineHistory
	// PausesAtBaseline is the number of pauses before the baseline was stored. During a pause, other operators may handle the object.
	PausesAtBaseline int32
	// FinalizerRemoved is true once this process has removed its finalizer from an object that is being deleted.
	FinalizerRemoved bool
	// FoundDeleted is true once a write or a read has found that the object no longer exists.
	FoundDeleted bool
	// LoggedTooLarge is true once this process has logged that the last-handled configuration doesn't fit on the object.
	LoggedTooLarge bool
}

// RemotePart is the framework's part of one object (records, baseline, pin) when it is stored outside of the object, see [progress.Remote].
// The engine handles the object as if it contained this part.
type RemotePart struct {
	// part is the stored part, as a JSON merge patch. If it is nil, nothing is stored yet, and the part on the object itself counts. It
	// dates from before the operator used a remote.
	part    patch.MergePatch
	version string
	// unknown is the data of a request if its outcome is unknown, and nil otherwise.
	unknown []byte
	// pauses is the number of pauses before the part was last loaded or compared. During a pause, other operators may save it.
	pauses int32
}

// ProgressNotStored is the condition that reports an overlay, and the reason of the Event about it.
const ProgressNotStored = "ProgressNotStored"

// Overlay is the framework's part of an object (records, baseline, pin) after the API server has rejected it. The engine handles the object
// as if this part were stored, until a later write stores it or the process exits.
type Overlay struct {
	// Patch is the rejected part, as a JSON merge patch.
	Patch patch.MergePatch
	// Content is the JSON form that the object had when the API server rejected the patch.
	Content map[string]any
	// Message is the API server's error message.
	Message string
}

// Overlaid returns an object's JSON form with its own progress. It includes progress that isn't stored on the object, and leaves out what
// was copied from a different object. Overlaid returns nil if the object already is in that form.
func (c *Committer) Overlaid(memory *Memory, obj client.Object) (map[string]any, error) {
	if copied, _ := c.Builder.isCopied(obj); !copied && memory.Remote == nil && memory.Overlay == nil {
		return nil, nil
	}
	content, err := patch.Content(obj)
	if err != nil {
		return nil, err
	}
	return c.overlaid(memory, patch.Converted{Object: obj, Content: content})
}

func (c *Committer) overlaid(memory *Memory, stored patch.Converted) (map[string]any, error) {
	if remote := memory.Remote; remote != nil && remote.part != nil {
		return remote.part.Apply(c.Builder.withoutFrameworkPart(stored.Content)), nil
	}
	if memory.Overlay != nil {
		return memory.Overlay.Patch.Apply(stored.Content), nil
	}
	foreign, err := c.Builder.disown(stored.Object, stored.Content)
	if len(foreign) == 0 || err != nil {
		return nil, err
	}
	return foreign.Apply(stored.Content), nil
}
