package commit

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/fencing"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// WriteTimeout limits one write. It is the only limit for the writes of an operator that is stopping.
const WriteTimeout = 10 * time.Second

// ErrEnded means that the operator has ended and no longer writes.
var ErrEnded = errors.New("the operator has ended: nothing is written any more")

// ErrChangedConcurrently means that another client has changed the fields of a write, or the stored progress, while this process was suspended.
var ErrChangedConcurrently = errors.New("another client has changed the object while this process was suspended: the write is dropped")

// Committer writes the changes of the objects of one kind. It is safe for concurrent use.
type Committer struct {
	Builder *Builder
	Writer  *patch.Writer
	// Name is the name of the controller, a label of the metrics.
	Name string
	// Remote stores the framework's part of the objects outside of them. If Remote is nil, the objects contain the part.
	Remote progress.Remote
	// Fence detects suspensions of the process. It is optional.
	Fence *fencing.Fence
	// ReadCached and ReadLive read an object from the cache and from the API server. They return nil for an object that does not exist.
	ReadCached, ReadLive func(ctx context.Context, key client.ObjectKey) (client.Object, error)
	// Pauses returns the number of pauses so far.
	Pauses func() int32
	// HasEnded reports whether the operator has ended. Sessions then write nothing.
	HasEnded func() bool
	// OnWritten receives the responses to all writes.
	OnWritten func(client.Object)
	// OnVersions receives the resource versions that writes to an object have created. It is optional.
	OnVersions func(uid types.UID, versions []WrittenVersion)
	// OnBaseline receives the baselines that are stored on objects.
	OnBaseline func(uid types.UID, stored []byte)
	// Warn posts an Event about an object.
	Warn func(obj client.Object, reason, note string)

	// Observed are the places where the operator writes the observed generation. ConditionPlaces locate the conditions.
	Observed        Observed
	ConditionPlaces []conditions.Option

	loggedDrops dropLog
}

// WrittenVersion is a resource version that a write has created.
type WrittenVersion struct {
	Version string
	// EditedAfter is the version of the object before the request, if another client has changed the object since then. Otherwise, it is empty.
	EditedAfter string
}

// identify sets the apiVersion and the kind, which typed clients drop.
func (c *Committer) identify(obj client.Object) {
	obj.GetObjectKind().SetGroupVersionKind(c.Writer.GVK)
}

// SuspensionCount returns the number of suspensions of the process.
func (c *Committer) SuspensionCount() int64 {
	if c.Fence == nil {
		return 0
	}
	return c.Fence.SuspensionCount()
}

// AwaitFence waits for the end of the hold after a suspension, and returns the number of suspensions until then.
func (c *Committer) AwaitFence(ctx context.Context) (suspensions int64, err error) {
	if c.Fence == nil {
		return 0, nil
	}
	return c.Fence.Wait(ctx)
}

// AwaitFenceUnchanged waits for the end of the hold before a write during an attempt of a handler. It returns [ErrEnded] if the operator has ended. If the process
// was suspended after the object was read, it reads the live object, and returns [ErrChangedConcurrently] if isExpected does not accept it.
func (c *Committer) AwaitFenceUnchanged(ctx context.Context, obj client.Object, suspensions *int64, isExpected func(content map[string]any) bool) error {
	if c.HasEnded() {
		return ErrEnded
	}
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

// ReportDropped logs and counts the fields of a handler that the API server did not store as the handler has set them, usually because of the schema of the
// kind: fields that it lacks, nulls that it does not allow, and defaults of fields that the handler has removed. It logs each field of a handler once, and at most maxDropped fields for the kind.
func (c *Committer) ReportDropped(ctx context.Context, change *patch.Change, handler string, doc patch.MergePatch) {
	if handler == "" || len(doc) == 0 {
		return
	}
	isNew := func(field string) bool {
		metrics.DroppedFields.WithLabelValues(c.Name).Inc()
		return c.loggedDrops.isNew(handler, field)
	}
	for _, field := range change.RestoredFields(doc) {
		if isNew(field) {
			log.FromContext(ctx).Info("The API server has set a field that the handler has removed or set to null: the field has a default",
				"handler", handler, "field", field, "remedy", "set the value that you want; to store null, set nullable: true for the field in the schema, "+
					"and do not use omitempty in a Go type")
		}
	}
	for _, field := range change.DroppedNulls(doc) {
		if isNew(field) {
			log.FromContext(ctx).Info("The API server has dropped a null that the handler has set: the schema lacks the field, or does not allow null there",
				"handler", handler, "field", field, "resource", c.resourceName(), "remedy", "remove the field instead, or set nullable: true for it in the schema, "+
					"or x-kubernetes-preserve-unknown-fields: true for the object around it")
		}
	}
	for _, field := range change.DroppedFields(doc) {
		if !isNew(field) {
			continue
		}
		logger := log.FromContext(ctx).WithValues("handler", handler, "field", field)
		if !strings.Contains(c.Writer.GVK.Group, ".") { // the group of a CustomResourceDefinition has a dot
			logger.Info("The API server has dropped a field that the handler has set: the built-in kind does not have this field",
				"remedy", "keep the value in an annotation, or set the field of another kind")
			continue
		}
		logger.Info("The API server has dropped a field that the handler has set: the schema of the kind lacks it",
			"resource", c.resourceName(), "remedy", "if a CustomResourceDefinition defines the kind, add the field to its schema, "+
				"or x-kubernetes-preserve-unknown-fields: true to the object around it; if the kind is built in, keep the value in an annotation")
	}
}

// resourceName returns the resource of the kind: <plural>.<group>. A CustomResourceDefinition has the same name.
func (c *Committer) resourceName() string {
	mapping, err := c.Writer.Client.RESTMapper().RESTMapping(c.Writer.GVK.GroupKind(), c.Writer.GVK.Version)
	if err != nil {
		return strings.ToLower(c.Writer.GVK.Kind) + "." + c.Writer.GVK.Group // an estimate
	}
	return mapping.Resource.GroupResource().String()
}

// maxDropped limits the fields that are logged and remembered, because ids of sub-handlers and keys of maps are unlimited.
const maxDropped = 1000

// dropLog records which dropped fields were logged.
type dropLog struct {
	mu   sync.Mutex
	seen map[[2]string]bool
}

// isNew returns true for the first call for a field of a handler, and false after maxDropped fields.
func (d *dropLog) isNew(handler, field string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := [2]string{handler, field}
	if d.seen[key] || len(d.seen) >= maxDropped {
		return false
	}
	if d.seen == nil {
		d.seen = map[[2]string]bool{}
	}
	d.seen[key] = true
	return true
}
