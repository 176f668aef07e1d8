package kopf

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/fence"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/versions"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
)

// starting is shared by the operator's parts. Each part sets fields for later ones.
type starting struct {
	operator   *Operator
	fixed      []kinds.Kind // the kinds that the operator watches from the start
	whenServed []kinds.Kind
	settings   engine.Settings
	objects    cache.Cache // of the fixed kinds
	peers      *peering.Peering
	dynamic    *kinds.Dynamic
	indexes    *operator.Gate // of the fixed kinds
}

// parts returns the operator's parts in the order in which they open. Opening a part that the declaration doesn't need has no effect. s is
// nil if the parts won't be opened.
func (o *Operator) parts(s *starting) []operator.Part {
	return append([]operator.Part{
		// The ring runs around the other parts.
		{Name: "the ring", Mistakes: func() []error { return shardingMistakes(o.kinds.Ring, o.peers) }, Check: o.checkSharding, Rights: o.kinds.Ring.Rights},
		{Name: "the discovery of the kinds", Open: s.openKinds},
		{Name: "the check of the permissions", NotReady: o.rights.notReady, Open: s.openRights},
		{Name: "the reservation of the kinds", Open: s.openReservation},
		{Name: "the cache", NotReady: o.notWarm, Open: s.openCache},
		{Name: "the recorder of Events", Open: s.openRecorder},
		{Name: "the peering", Rights: o.peers.Rights, NotReady: func() []error { return peersNotReady(o.kinds, o.peers) }, Open: s.openPeering},
		{Name: "the controllers", NotReady: o.kinds.NotReady, Open: s.openControllers},
		{Name: "the controllers of other kinds", Rights: o.discoveryRights, Open: s.openDynamicKinds},
		{Name: "the check for suspensions", Open: s.openFence},
		{Name: "pauses", Open: s.openPauses},
		{Name: "the namespaces", Rights: o.kinds.Namespaces.Rights, NotReady: o.kinds.Namespaces.NotReady, Open: s.openNamespaces},
		{Name: "OnVersion", Open: s.openVersions},
		{Name: "the report of objects that do not decode", NotReady: o.kinds.NotReadyForObjects, Open: s.openDecoding},
		{Name: "the watches", NotReady: o.kinds.Watches.NotReady}, // run with the controllers
		{Name: "the admission handlers", Rights: o.webhookRights},
	}, o.added...)
}

func (s *starting) openKinds(ctx context.Context) (operator.Running, error) {
	return operator.Running{}, s.operator.kinds.Discover(ctx, s.fixed)
}

func (s *starting) openRights(ctx context.Context) (operator.Running, error) {
	checker, err := s.operator.rights.start(ctx, s.operator.kinds, s.fixed)
	if checker == nil || err != nil {
		return operator.Running{}, err
	}
	return operator.Running{
		Run: func(ctx context.Context) error { checker.Run(ctx, s.operator.kinds.WatchCheck); return nil },
		Close: func() {
			s.operator.rights.set(nil, nil)
			checker.Close()
		},
	}, nil
}

func (s *starting) openReservation(context.Context) (operator.Running, error) {
	release, err := s.operator.kinds.Reserve(s.fixed)
	return operator.Running{Close: release}, err
}

func (s *starting) openCache(ctx context.Context) (one operator.Running, err error) {
	s.objects, one.Close, err = s.operator.kinds.StartCache(ctx, s.fixed)
	s.settings.Client, s.settings.APIReader, s.settings.Tracked = s.operator.kinds.Client(), s.operator.mgr.GetAPIReader(), s.objects
	return one, err
}

func (s *starting) openRecorder(ctx context.Context) (operator.Running, error) {
	recorder, err := newRecorder(s.operator.mgr, s.operator.eventNames, &s.settings)
	if recorder == nil || err != nil {
		return operator.Running{}, err
	}
	return operator.Running{Close: runRecorder(ctx, recorder)}, nil
}

// openPeering opens the peering and the fence. The peering runs longer than the controllers, because peers must not handle objects before
// our running handlers have finished and their outcomes are written.
func (s *starting) openPeering(ctx context.Context) (one operator.Running, err error) {
	if s.peers, one.Close, err = s.operator.peers.Open(); err != nil {
		return one, err
	}
	if s.peers != nil {
		s.settings.Pause, one.Run, one.Last = s.peers, s.peers.Start, true
	}
	s.settings.Log = s.operator.mgr.GetLogger().WithValues("operator", operator.Identity(s.peers))
	if s.operator.NeedLeaderElection() || s.operator.kinds.Ring != nil {
		s.settings.Fence = fence.New(ctx, s.operator.lease, s.peers, s.operator.kinds.Ring.IsOverdue(), s.settings.Log)
	}
	if s.settings.Fence != nil {
		s.settings.Pause = s.settings.Fence
	}
	return one, nil
}

func (s *starting) openControllers(ctx context.Context) (operator.Running, error) {
	all := s.operator.kinds
	var after *operator.Gate
	if all.Namespaces != nil {
		s.settings.Scope, after = all.Namespaces, all.Namespaces.Entered()
	}
	var err error
	if s.dynamic, err = all.NewDynamic(s.settings, s.fixed, s.whenServed, s.operator.selectors()); err != nil {
		return operator.Running{}, err
	}
	discoveries := 0 // counts as a kind
	if s.dynamic != nil {
		discoveries = 1
	}
	testhook.OperatorStarting(ctx, len(s.fixed)+discoveries)
	group := all.NewGroup(s.settings, s.objects, after, s.fixed, s.operator.warmsUp() && all.Namespaces == nil)
	s.indexes = group.Indexes()
	units, err := group.Units(ctx)
	if err != nil {
		return operator.Running{}, err
	}
	return all.Fixed(units), nil
}

func (s *starting) openDynamicKinds(context.Context) (operator.Running, error) {
	if s.dynamic == nil {
		return operator.Running{}, nil
	}
	return operator.Running{Run: func(ctx context.Context) error { return s.dynamic.Run(ctx, s.indexes) }}, nil
}

func (s *starting) openFence(ctx context.Context) (operator.Running, error) {
	return operator.Running{Close: fence.Start(ctx, s.settings.Fence, &s.operator.kinds.Engines, s.operator.peers.Scopes()[0])}, nil
}

func (s *starting) openPauses(context.Context) (operator.Running, error) {
	if s.peers == nil {
		return operator.Running{}, nil
	}
	return operator.Running{Close: s.operator.peers.Forward()}, nil
}

func (s *starting) openNamespaces(context.Context) (operator.Running, error) {
	set := s.operator.kinds.Namespaces
	if set == nil {
		return operator.Running{}, nil
	}
	set.Begin()
	return operator.Running{Run: func(ctx context.Context) error {
		return set.Run(ctx, s.settings.Log, func() { s.operator.rights.current().Recheck() }, s.operator.kinds.OwnCacheOptions)
	}}, nil
}

func (s *starting) openVersions(context.Context) (operator.Running, error) {
	functions := &s.operator.functions
	if len(functions.versions) == 0 {
		return operator.Running{}, nil
	}
	changed := func(ctx context.Context, old, current version.Info) {
		functions.versionChanged(ctx, s.operator.kinds, old, current)
	}
	return operator.Running{Run: func(ctx context.Context) error { return versions.Watch(ctx, s.operator.mgr, s.settings.Log, changed) }}, nil
}

func (s *starting) openDecoding(context.Context) (operator.Running, error) {
	return operator.Running{Run: func(ctx context.Context) error { s.operator.kinds.ReportUndecodable(ctx); return nil }}, nil
}

// Readyz returns an error while the operator starts, until its caches have synced, its indexes are complete, its peers are known, and the
// Events for OnEventAbout handlers are listed. Later, it returns an error while the peering fails, while a served kind or a namespace (see
// [WithNamespaces]) can't be handled, while a watch has a problem (see [WithWatchCheck]), while a permission is lost (see
// [WithRightsCheck]), and while objects don't decode (see [NewCache]). In the last case, an operator with admission handlers stays ready,
// because the API server must reach them when a user repairs the objects.
//
// A paused operator is ready, and so is one that is waiting to become the leader. But with EnableWarmup, the latter isn't ready before its
// caches and indexes have synced (see [Operator.Warmup]).
//
// Use Readyz as a healthz.Checker for readiness probes:
//
//	mgr.AddReadyzCheck("kopf", op.Readyz)
//
// [SetupWithManager] already does this.
func (o *Operator) Readyz(*http.Request) error { return operator.NotReady(o.parts(nil)) }
