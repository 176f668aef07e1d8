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

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/suspension"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// WriteTimeout limits one write. Nothing else limits the writes of an operator that is stopping.
const WriteTimeout = 10 * time.Second

// ErrEnded means that the operator has stopped and no longer writes.
var ErrEnded = errors.New("the operator has ended: nothing is written any more")

// ErrChangedConcurrently means that another client changed the stored progress or the same fields while this process was suspended.
var ErrChangedConcurrently = errors.New("another client has changed the object while this process was suspended: the write is dropped")

// Committer writes changes to the objects of one kind. It is safe for concurrent use.
type Committer struct {
	Builder *Builder
	Writer  *patch.Writer
	// Name is the controller's name, which labels the metrics.
	Name string
	// Remote stores the framework's part outside of the objects. If it is nil, the objects contain that part.
	Remote progress.Remote
	// Fence detects that the process was suspended. It is optional.
	Fence *suspension.Fence
	// ReadCached and ReadLive read an object from the cache and from the API server. They return nil if the object doesn't exist.
	ReadCached, ReadLive func(ctx context.Context, key client.ObjectKey) (client.Object, error)
	// Pauses returns the number of pauses so far.
	Pauses func() int32
	// HasEnded reports whether the operator has stopped. Sessions then write nothing.
	HasEnded func() bool
	// OnWritten is called with the response to every write.
	OnWritten func(client.Object)
	// OnVersions is called with the resource versions that writes to an object have created. It is optional.
	OnVersions func(uid types.UID, versions []WrittenVersion)
	// OnBaseline is called with every baseline that is stored on an object.
	OnBaseline func(uid types.UID, stored []byte)
	// Warn posts an Event about an object.
	Warn func(obj client.Object, reason, note string)

	// Observed are the places where the operator writes the observed generation, and ConditionPlaces say where conditions are stored.
	Observed        Observed
	ConditionPlaces []conditions.Option

	loggedDrops dropLog
}

// WrittenVersion is a resource version that a write has created.
type WrittenVersion struct {
	Version string
	// EditedAfter is the object's version before the request if another client has changed the object since. Otherwise it is empty.
	EditedAfter string
}

// identify sets the apiVersion and the kind, which typed clients drop.
func (c *Committer) identify(obj client.Object) {
	obj.GetObjectKind().SetGroupVersionKind(c.Writer.GVK)
}

// SuspensionCount returns how often the process was suspended.
func (c *Committer) SuspensionCount() int64 {
	if c.Fence == nil {
		return 0
	}
	return c.Fence.SuspensionCount()
}

// AwaitFence waits until the hold after a suspension is over. It returns the number of suspensions until then.
func (c *Committer) AwaitFence(ctx context.Context) (suspensions int64, err error) {
	if c.Fence == nil {
		return 0, nil
	}
	return c.Fence.Wait(ctx)
}

// AwaitFenceUnchanged waits like [Committer.AwaitFence], before a write during a handler's attempt. It returns [ErrEnded] if the operator
// has stopped. If the process was suspended after the object was read, it reads the live object, and returns [ErrChangedConcurrently]
// unless isExpected accepts it, or [patch.ErrGone] if it doesn't exist any more.
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

// ReportDropped logs and counts a handler's fields that the API server didn't store as they were set. Usually this is due to the kind's
// schema: it lacks a field, doesn't allow a null, or has a default for a removed field. Each field of a handler is logged once, and at most
// maxDropped fields per kind.
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

// resourceName returns the kind's resource, <plural>.<group>, which is also the name of its CustomResourceDefinition.
func (c *Committer) resourceName() string {
	mapping, err := c.Writer.Client.RESTMapper().RESTMapping(c.Writer.GVK.GroupKind(), c.Writer.GVK.Version)
	if err != nil {
		return strings.ToLower(c.Writer.GVK.Kind) + "." + c.Writer.GVK.Group // a guess
	}
	return mapping.Resource.GroupResource().String()
}

// maxDropped limits how many fields are logged and remembered, because there can be any number of sub-handler ids and map keys.
const maxDropped = 1000

// dropLog remembers which dropped fields were logged.
type dropLog struct {
	mu   sync.Mutex
	seen map[[2]string]bool
}

// isNew returns true for the first call for a handler's field, and always false after maxDropped fields.
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
