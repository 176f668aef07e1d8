package commit

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// Memory contains the data that the process keeps about the writes to one object. Only the worker of the object uses it.
type Memory struct {
	// Overlay is the framework's part of the object that the API server has rejected; nil if it is stored.
	Overlay *Overlay
	// Remote is the framework's part of the object that is stored outside of it; nil if it is not known.
	Remote *RemotePart
	// Baselines describes the baselines that this process has stored; nil until it has stored one.
	Baselines *cause.BaselineHistory
	// PausesAtBaseline is the number of pauses before the baseline was stored. Other operators may handle the object during a pause.
	PausesAtBaseline int32
	// FinalizerRemoved is true after this process has removed its finalizer from an object that is being deleted.
	FinalizerRemoved bool
	// FoundDeleted is true after a write has failed because the object no longer exists.
	FoundDeleted bool
	// LoggedTooLarge is true after this process has logged that the last-handled configuration is too large to be stored.
	LoggedTooLarge bool
}

// RemotePart is the framework's part of one object (records, baseline, pin) if it is stored outside of the object, see [progress.Remote]. The engine
// handles the object as if it contained this part.
type RemotePart struct {
	// part is the stored part, as a JSON merge patch. If it is nil, nothing is stored, and the part of the object itself counts: it was stored before the
	// operator used a remote.
	part    patch.MergePatch
	version string
	// unknown is the data of a request whose outcome is unknown; nil if there is none.
	unknown []byte
	// pauses is the number of pauses before the part was loaded or compared last. Other operators may save the part during a pause.
	pauses int32
}

// ProgressNotStored is the reason of the Event that reports an overlay, and the type of the condition.
const ProgressNotStored = "ProgressNotStored"

// Overlay is the framework's part of an object (records, baseline, pin) that the API server has rejected. The engine handles the object as if this part
// were stored, until a later write stores it or the process ends.
type Overlay struct {
	// Patch is the rejected part, as a JSON merge patch.
	Patch patch.MergePatch
	// Content is the JSON form of the object for which the API server rejected the patch.
	Content map[string]any
	// Message is the error message of the API server.
	Message string
}

// Overlaid returns the JSON form of an object with its own progress: with the progress that is not stored on it, and without the progress of another object
// from which it was copied. It returns nil if that is what is stored on the object.
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
