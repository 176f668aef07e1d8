package commit

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/fencing"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// WriteTimeout limits one write. It is the only limit for the writes of an operator that is stopping.
const WriteTimeout = 10 * time.Second

// Committer writes the changes of the objects of one kind. It is safe for concurrent use.
type Committer struct {
	*Builder
	Writer *patch.Writer
	// Name is the name of the controller, a label of the metrics.
	Name string
	// Remote stores the framework's part of the objects outside of them. If it is nil, the objects contain it.
	Remote progress.Remote
	// Fence detects suspensions of the process. It is optional.
	Fence *fencing.Fence
	// ConsistencyTimeout is the time in which the cache must show a write.
	ConsistencyTimeout time.Duration
	// TracksVersions records the resource versions of all writes.
	TracksVersions bool
	// ReadCached and ReadLive read an object from the cache and from the API server. They return nil for an object that does not exist.
	ReadCached, ReadLive func(ctx context.Context, key client.ObjectKey) (client.Object, error)
	// Pauses returns the number of pauses so far.
	Pauses func() int64
	// HasEnded reports whether the operator has ended, and nothing is written any more.
	HasEnded func() bool
	// OnWritten receives the responses to all writes.
	OnWritten func(client.Object)
	// OnBaseline receives the baselines that are stored on objects.
	OnBaseline func(uid types.UID, stored []byte)
	// Warn posts an Event about an object.
	Warn func(obj client.Object, reason, note string)

	loggedDrops dropLog
}

// Memory is what the process remembers of the writes to one object. Only the worker of the object uses it.
type Memory struct {
	// Pending is a session whose write has failed. The write is retried before the next decision.
	Pending *Session
	// Overlay is the framework's part of the object that the API server has rejected; nil if it is stored.
	Overlay *Overlay
	// Remote is the framework's part of the object that is stored outside of it; nil if it is not known.
	Remote *RemotePart
	// Baselines describes the baselines that this process has stored.
	Baselines cause.BaselineHistory
	// PausesAtBaseline is the number of pauses before the baseline was stored. Other operators may handle the object during a pause.
	PausesAtBaseline int64
	// FinalizerRemoved is true after this process has removed its finalizer from an object that is being deleted. The finalizer is not added again.
	FinalizerRemoved bool
	// FoundDeleted is true after a write has failed because the object no longer exists.
	FoundDeleted bool
	// LoggedTooLarge is true after this process has logged that the last-handled configuration is too large to be stored.
	LoggedTooLarge bool
}

// Awaiter records the writes that the cache must show.
type Awaiter interface {
	SetAwaitedVersion(version string, timeout time.Duration)
	AddOwnVersions(versions ...string)
}

// Host is the reconcile to which a session belongs.
type Host interface {
	// ReportConditions adds the conditions that report handlers to the draft.
	ReportConditions(ctx context.Context)
	// AfterWrite is called when the API server has accepted all changes. changed contains those of handlers, and version is the resource version after them.
	AfterWrite(ctx context.Context, changed patch.MergePatch, version string)
	// Deleted is called when the object no longer exists.
	Deleted()
}

// NewSession returns a session without an object. [Draft.SetBase] sets its object.
func (c *Committer) NewSession(memory *Memory, awaiter Awaiter, host Host) Session {
	return Session{Committer: c, Draft: Draft{newObject: c.Writer.NewObject}, Memory: memory, awaiter: awaiter, host: host}
}

// SuspensionCount returns the number of suspensions of the process.
func (c *Committer) SuspensionCount() int64 {
	if c.Fence == nil {
		return 0
	}
	return c.Fence.SuspensionCount()
}

// Guard returns the check before each request: no request is sent that was computed before a suspension. The changes are compared with the
// object after the hold, as after a pause.
func (c *Committer) Guard(suspensions *int64) func() error {
	if c.Fence == nil {
		return nil
	}
	return func() error {
		if c.HasEnded() {
			return ErrEnded
		}
		if c.Fence.IsActive() || c.Fence.SuspensionCount() != *suspensions {
			return fencing.ErrSuspended
		}
		return nil
	}
}

// AwaitFence waits for the end of a hold after a suspension, and returns the number of suspensions until then.
func (c *Committer) AwaitFence(ctx context.Context) (suspensions int64, err error) {
	if c.Fence == nil {
		return 0, nil
	}
	return c.Fence.Wait(ctx)
}

// AwaitFenceUnchanged delays a write during an attempt of a handler until the end of a hold. If the process was suspended after the object was
// read, it checks on the API server that the object is as the write expects it.
func (c *Committer) AwaitFenceUnchanged(ctx context.Context, obj client.Object, suspensions *int64, isExpected func(content map[string]any) bool) error {
	now, err := c.AwaitFence(ctx)
	if err != nil || now == *suspensions {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	live, err := c.ReadLive(ctx, client.ObjectKeyFromObject(obj))
	switch {
	case err != nil:
		return err
	case live == nil || live.GetUID() != obj.GetUID():
		return patch.ErrGone
	}
	content, err := patch.Content(live)
	if err != nil {
		return err
	}
	if !isExpected(content) {
		return ErrChangedConcurrently
	}
	*suspensions = now
	return nil
}

func now() time.Time { return time.Now() }
