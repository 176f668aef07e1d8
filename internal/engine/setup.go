package engine

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/background"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/epoch"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/eventrecorder"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/leancache"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/promotion"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/retry"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/revision"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/tracking"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// New returns the engine of a kind.
func New(settings Settings, kind Kind) *Engine {
	settings.ConsistencyTimeout = cmp.Or(settings.ConsistencyTimeout, DefaultConsistencyTimeout)
	lean := LeanForm(settings, kind)
	lastHandled := settings.completeStores(&kind)
	e := &Engine{Settings: settings, Kind: kind.withHandlerDefaults(&settings), lean: lean}
	e.retries = settings.retryKeys(&kind)
	e.revisions = revisions{key: settings.revisionKey(&kind), declared: e.Revisions(), text: revision.Describe(e.Revisions())}
	e.revisions.tracksSchema = e.Rollout != nil && e.revisions.key != nil && isDefinedByCRD(e.GVK.Group) && kind.comparesStates()
	e.queue.created, e.gone.deletions = time.Now(), newDeletionChecker()
	e.states = objectstate.New[objectMemory](objectstate.Options{
		RecordEvents: len(kind.EventHandlers.IDs()) > 0,
		TrackDirty:   kind.tracksChanges(),

		MarkDeletions: kind.callsAfterDeletion(),

		ExistedAtStart: func(first client.Object) bool { return e.epoch.Existed(first) }, // StartFrom sets the epoch
		ReadBaseline:   e.baselineOf,
		SameBaseline:   e.baselineComparison(),
		Enqueues:       e.retries.HasWork,
		AtRest:         e.isAtRest,
	})
	e.events = &eventrecorder.Poster{
		Name: e.Name, GVK: e.GVK, Client: e.Client, Recorder: e.Recorder, Level: e.Events,
		Limiter:   eventrecorder.Limiter{Burst: settings.EventBurst, Interval: settings.EventInterval, AggregatesSeries: settings.AggregatesEvents},
		LoggerFor: e.logOf,
	}
	e.background.supervisor = e.newSupervisor()
	e.detector = e.newDetector()
	e.committer = e.newCommitter(lastHandled)
	if len(e.AttemptHooks) > 0 {
		e.traits.hooks = &invoke.Hooks{Kind: e.GVK, Each: e.AttemptHooks}
	}
	e.background.runner = &background.Runner{
		Name: e.Name, Handlers: &e.BackgroundHandlers, Supervisor: e.background.supervisor, Committer: e.committer, Objects: e.states, Hooks: e.traits.hooks,
		Results: e.Results, NewView: e.newView, Report: e.reportBackground, Enqueue: e.enqueue, LoggerFor: e.logOf,
		Leaves: e.Shard.Leaves, OnCall: e.beginBackgroundCall,
	}
	e.queue.promoter = promotion.New(e.states, func() {
		e.QueueStats() // updates the metrics
		e.events.Limiter.Sweep()
	})
	e.tracker = tracking.New(e.Client, e.Tracked, func(key types.NamespacedName) { e.Trigger(key) })
	e.others.order, e.traits.retriesOnChange = reconcileOrder(&kind), kind.retriesOnRelatedChange()
	e.traits.writesEventChanges, e.traits.reportsConditions = kind.WritesEventChanges(), kind.mayReportConditions()
	e.traits.usesFinalizer = kind.usesFinalizer(e.SharesFinalizer)
	e.traits.handlesOwnChanges = e.OwnChanges || len(e.Watched)+len(e.Conditions) > 0
	e.traits.conditionPlaces = slices.Clip(append(kind.conditionOptions(), conditions.OnSet(e.committer.Observed.AddCondition)))
	e.committer.ConditionPlaces = e.traits.conditionPlaces
	for _, conditionType := range kind.ownConditions() {
		e.committer.Observed.AddCondition(conditionType)
	}
	e.restRule = e.newRestRule()
	e.held.bySteps, e.held.looping = e.heldByStep(), newHeldObjects(e.Name, HeldByLoop)
	if e.Shard != nil {
		metrics.DrainingObjects.WithLabelValues(e.Name).Set(0)
	}
	e.layers, e.layered = e.newLayers(), e.reconcile
	for _, l := range slices.Backward(e.layers) {
		e.layered = l.wrap(e.layered)
	}
	return e
}

// reconcileOrder returns the reconcile handlers' ids in order of registration, but each after those that must succeed before it.
func reconcileOrder(kind *Kind) (order []string) {
	var add func(id string)
	add = func(id string) {
		if slices.Contains(order, id) {
			return
		}
		handler, _ := kind.ReconcileHandlers.Get(id)
		for _, first := range handler.After {
			add(first)
		}
		order = append(order, id)
	}
	for _, id := range kind.ReconcileHandlers.IDs() {
		add(id)
	}
	return order
}

// Promoter returns the source that a controller with this number of workers must watch.
func (e *Engine) Promoter(workers int) source.Source { return e.queue.promoter.For(workers) }

// Memos returns the values that handlers store for an object. For an unknown object, they are empty and not kept.
func (e *Engine) Memos(uid types.UID) *objectstate.Memos { return e.states.Memos(uid) }

// Background runs daemons and timers until the context is cancelled, and returns when they have stopped.
func (e *Engine) Background(ctx context.Context) error {
	logger := e.Log.WithValues("controller", e.Name)
	return e.background.supervisor.Start(log.IntoContext(ctx, logger))
}

// Close marks the operator as stopped. Daemons and timers that haven't stopped in time can no longer write.
func (e *Engine) Close() {
	e.queue.ended.Store(true)
	e.gone.deletions.close()
	e.tracker.Close()
	if e.Rollout != nil {
		e.Rollout.Left(e)
	}
}

func (e *Engine) newCommitter(baseline essence.DigestBaseline) *commit.Committer {
	var stamps progress.Stamps
	if e.Remote == nil {
		stamps = e.Stamps
	}
	committer := &commit.Committer{
		Builder: &commit.Builder{
			Detector: e.detector, Store: e.Store, Baseline: baseline, Pin: e.Pin, Stamps: stamps, HandlerIDs: e.Handlers.IDs(), Finalizer: e.Finalizer, HasStatus: e.HasStatus,
			DigestOnly: e.DigestOnly, Requests: e.retries, Revisions: e.revisions.key, Lean: e.lean,
		},
		Writer: &patch.Writer{
			Client: e.Client, APIReader: e.APIReader, NewObject: e.New, GVK: e.GVK, HasStatus: e.HasStatus,
			OnConflict: metrics.WriteConflicts.WithLabelValues(e.Name).Inc,
		},
		Name: e.Name, Remote: e.Remote, Fence: e.Fence,
		ReadCached: e.readCached, ReadLive: e.readLive, Pauses: e.pause.count.Load, HasEnded: e.queue.ended.Load,
		OnWritten: e.states.UpdateUnlessOlder, OnBaseline: e.states.NoteStoredBaseline,
		Warn: e.events.Warn,
	}
	if e.tracksChanges() {
		committer.OnVersions = func(uid types.UID, versions []commit.WrittenVersion) {
			for _, v := range versions {
				e.states.AddOwnVersion(uid, objectstate.OwnVersion(v))
			}
		}
	}
	return committer
}

// completeStores sets what follows from the stores of the settings and of the kind's handlers, and returns the baseline.
func (s *Settings) completeStores(kind *Kind) essence.DigestBaseline {
	if stores := kind.HandlerStores(); len(stores) > 0 {
		s.Store = progress.ByHandler(s.Store, stores)
		if s.Remote == nil && kind.storesNothing(stores) {
			s.Remote = &memoryRemote{}
		}
	}
	s.Pin, s.Stamps = progress.Pin(s.Baseline, s.Store), progress.StampsOf(s.Baseline, s.Store)
	lastHandled := essence.WithDigestFallback(s.Baseline, s.Store)
	s.Baseline = lastHandled
	return lastHandled
}

// retryKeys returns the keys of requests to call handlers again, or nil if the objects contain no progress.
func (s *Settings) retryKeys(kind *Kind) *retry.Keys {
	ids := slices.Concat(kind.Handlers.IDs(), kind.BackgroundHandlers.IDs())
	prefix, isAnnotated := s.annotationPrefix()
	if !isAnnotated || len(ids) == 0 {
		return nil
	}
	return retry.NewKeys(prefix, ids)
}

// revisionKey returns the key of the notes about revisions, or nil if the objects contain no progress.
func (s *Settings) revisionKey(kind *Kind) *revision.Key {
	prefix, isAnnotated := s.annotationPrefix()
	if !isAnnotated || len(kind.Handlers.IDs()) == 0 {
		return nil
	}
	return revision.NewKey(prefix)
}

// annotationPrefix returns the prefix of the operator's annotations, or false if the objects contain no progress.
func (s *Settings) annotationPrefix() (prefix string, ok bool) {
	prefix, _, isStamped := strings.Cut(s.Stamps.Key(""), "/")
	return prefix, isStamped && s.Remote == nil
}

// essenceBuilder returns the builder of the kind's essences, without statuses of conditions that users store elsewhere.
func (s *Settings) essenceBuilder(kind *Kind, retries *retry.Keys) essence.Builder {
	cleaners := []essence.Cleaner{optOut(s.OptOut), retries, s.revisionKey(kind), s.Baseline, s.Store, s.Pin, s.Stamps}
	return essence.Builder{Fields: kind.Fields, Conditions: kind.Conditions, Cleaners: cleaners}
}

// LeanForm returns the form of the kind's objects in caches. It returns nil if the caches contain whole objects: without
// [Settings.LeanCaches], if the annotations contain no text of the last-handled configuration, and if users' code would be called.
func LeanForm(settings Settings, kind Kind) *leancache.Form {
	if !settings.LeanCaches || settings.Remote != nil || kind.DigestOnly || kind.CallsUserCode || !kind.comparesStates() ||
		!progress.UsesOnlyAnnotations(settings.Baseline, kind.New()) {
		return nil
	}
	baseline := settings.completeStores(&kind)
	if settings.Remote != nil {
		return nil
	}
	return &leancache.Form{Essence: settings.essenceBuilder(&kind, settings.retryKeys(&kind)), Baseline: baseline}
}

func (e *Engine) newDetector() *cause.Detector {
	builder := e.essenceBuilder(&e.Kind, e.retries)
	builder.FindConditionStatuses = e.conditionStatuses()
	return &cause.Detector{
		Name: e.Name, Essence: builder, Lean: e.lean != nil,
		Retype: e.retype,
		// Results are part of the essence if they are stored outside of the status, or if a handler watches their field.
		HasUntypedFields: len(e.Fields) > 0 || len(e.Results) > 0 && e.Results[0] != "status",
		Watched:          e.Watched,
		OwnChanges:       e.OwnChanges,
		Stateless:        !e.comparesStates(),
	}
}

// StartFrom sets the epoch. From then on, the engine trusts a state of an object only if the state isn't older than version, or if the
// cache has reached version. If version is empty, it trusts no state. store returns the cache's store for a namespace, or nil if it is
// unknown. StartFrom must be called before the informer delivers the first object. Without it, the engine trusts every state.
func (e *Engine) StartFrom(version string, store func(namespace string) toolscache.Store) {
	e.epoch = &epoch.Epoch{Version: version, Store: store, Scoped: e.Scope != nil, Selector: e.Selector, Reader: e.APIReader, GVK: e.GVK, States: e.states}
}

// AwaitEpoch calls [epoch.Epoch.Await].
func (e *Engine) AwaitEpoch(ctx context.Context, namespaces ...string) error {
	return e.epoch.Await(ctx, namespaces...)
}

// VerifyCache calls [epoch.Epoch.Verify].
func (e *Engine) VerifyCache(ctx context.Context, delivered <-chan struct{}, namespaces ...string) error {
	return e.epoch.Verify(ctx, delivered, namespaces...)
}

// WarnAbout posts a Warning about an object that the engine cannot handle, unless automatic Events are disabled. The object may be of a
// different kind.
func (e *Engine) WarnAbout(obj *metav1.PartialObjectMetadata, reason, note string) {
	e.events.WarnAbout(obj, reason, note)
}
