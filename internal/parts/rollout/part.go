package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/revision"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/rollout"
)

// Part runs the rollouts of an operator's kinds.
type Part struct {
	options rollout.Options
	manager manager.Manager
	shard   func() string // the name of this process in the progress
	// hasDynamicKinds reports whether kinds are added later.
	hasDynamicKinds func() bool

	mu     sync.Mutex
	groups map[*engine.Engine]*entry
	wake   chan struct{}            // has room for one element
	stored *corev1.ConfigMap        // nil until it was read
	loaded map[string]rollout.State // the readable states in it
}

// entry is a group with what the process has done for it.
type entry struct {
	*group
	kind     string // the key in the ConfigMap
	saved    rollout.Progress
	savedAt  time.Time
	retryAt  time.Time // after a write that has failed
	hasBegun bool      // the log says that the rollout has begun
	isHalted bool      // the log says that it is halted
}

// New returns the part for the options. shard returns the name of this process's shard, or "" without sharding.
func New(options rollout.Options, mgr manager.Manager, shard func() string, hasDynamicKinds func() bool) *Part {
	return &Part{
		options: options.WithDefaults(), manager: mgr, shard: shard, hasDynamicKinds: hasDynamicKinds, groups: map[*engine.Engine]*entry{}, wake: make(chan struct{}, 1),
	}
}

// Of returns the part as one of an operator's.
func (p *Part) Of() operator.Part {
	return operator.Part{Name: "the rollout", Mistakes: p.mistakes, Check: p.check, Rights: p.rights, Open: p.open}
}

func (p *Part) mistakes() []error {
	if err := p.options.Check(); err != nil {
		return []error{fmt.Errorf("WithRollout: %w", err)}
	}
	return nil
}

func (p *Part) check(kinds []engine.Kind) (errs []error) {
	if !p.hasDynamicKinds() && !slices.ContainsFunc(kinds, func(kind engine.Kind) bool { return kind.RollsOut() }) {
		errs = append(errs, errors.New("WithRollout has no effect, because no handler has a Revision, and no kind is from a CRD: add a Revision, or remove the option"))
	}
	if _, err := p.namespace(); err != nil {
		errs = append(errs, fmt.Errorf("WithRollout: %w", err))
	}
	return errs
}

// namespace returns the namespace of the ConfigMap.
func (p *Part) namespace() (string, error) {
	if p.options.Namespace != "" {
		return p.options.Namespace, nil
	}
	namespace, err := validation.PodNamespace()
	if err != nil {
		return "", fmt.Errorf("the namespace of the ConfigMap is not known outside of a cluster: set Namespace, or the environment variable POD_NAMESPACE: %w", err)
	}
	return namespace, nil
}

func (p *Part) rights(namespace string) []rbac.Need {
	if found, err := p.namespace(); err == nil {
		namespace = found
	}
	one := rbac.Need{
		Resource: "configmaps", Namespace: namespace, Name: p.options.Name, Verbs: []string{"get", "list", "watch", "update"}, Level: rbac.Required,
		Reason: "rollout: its state",
	}
	create := one
	create.Name, create.Verbs = "", []string{"create"}
	return []rbac.Need{one, create}
}

// entryOf returns the group of an engine. The caller must hold the lock.
func (p *Part) entryOf(e *engine.Engine) *entry {
	one := p.groups[e]
	if one == nil {
		one = &entry{group: newGroup(p.options, revision.Describe(e.DeclaredRevisions()), p.shard()), kind: e.Name}
		if mapping, err := p.manager.GetRESTMapper().RESTMapping(e.GVK.GroupKind(), e.GVK.Version); err == nil {
			one.kind = mapping.Resource.GroupResource().String()
		}
		p.pass(one)
		p.groups[e] = one
	}
	return one
}

// Observe implements [engine.Rollout].
func (p *Part) Observe(e *engine.Engine, key types.NamespacedName, s revision.Standing) engine.Hold {
	p.mu.Lock()
	one := p.entryOf(e)
	changed, at := one.observe(key, s), time.Now()
	var d decision
	if changed {
		d = one.decide(at, e.IsPaused)
	}
	hold := holdFor(one, key, at)
	p.mu.Unlock()
	for _, released := range d.release {
		if released != key {
			e.EnqueueKey(released)
		}
	}
	if changed {
		p.wakeUp()
	}
	return hold
}

func holdFor(one *entry, key types.NamespacedName, now time.Time) engine.Hold {
	wait := one.check(key, now)
	if wait == "" {
		return engine.Hold{}
	}
	return engine.Hold{Reason: engine.HeldByRollout, Message: wait, Scope: engine.HoldsCauses, ByUser: one.control.Halted != nil || one.objects[key] == nil}
}

// Check implements [engine.Rollout].
func (p *Part) Check(e *engine.Engine, key types.NamespacedName) engine.Hold {
	p.mu.Lock()
	defer p.mu.Unlock()
	return holdFor(p.entryOf(e), key, time.Now())
}

// Note implements [engine.Rollout].
func (p *Part) Note(e *engine.Engine, key types.NamespacedName, s revision.Standing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.entryOf(e).observe(key, s)
}

// Known implements [engine.Rollout].
func (p *Part) Known(e *engine.Engine) {
	p.mu.Lock()
	p.entryOf(e).isKnown = true
	p.mu.Unlock()
	p.wakeUp()
}

// Forget implements [engine.Rollout].
func (p *Part) Forget(e *engine.Engine, key types.NamespacedName) {
	p.mu.Lock()
	changed := p.entryOf(e).forget(key)
	p.mu.Unlock()
	if changed {
		p.wakeUp()
	}
}

// Left implements [engine.Rollout].
func (p *Part) Left(e *engine.Engine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.groups, e)
}

func (p *Part) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *Part) open(context.Context) (operator.Running, error) {
	namespace, err := p.namespace()
	if err != nil {
		return operator.Running{}, err
	}
	c, err := client.NewWithWatch(p.manager.GetConfig(), client.Options{HTTPClient: p.manager.GetHTTPClient(), Scheme: clientgoscheme.Scheme})
	if err != nil {
		return operator.Running{}, err
	}
	key := client.ObjectKey{Namespace: namespace, Name: p.options.Name}
	return operator.Running{Run: func(ctx context.Context) error {
		stopped := make(chan struct{})
		go func() { defer close(stopped); p.watch(ctx, c, key) }()
		p.run(ctx, c, key)
		<-stopped
		return nil
	}}, nil
}

func (p *Part) log() logr.Logger { return p.manager.GetLogger().WithName("rollout") }

const (
	// saveInterval is the shortest time between two writes of the progress.
	saveInterval = 10 * time.Second
	// retryInterval is the time after which a write that has failed is repeated.
	retryInterval = 5 * time.Second
	// writeTimeout limits one write.
	writeTimeout = 10 * time.Second
)

// run decides for all groups whenever something has changed, and writes halts, answers and progress, until the context is cancelled.
func (p *Part) run(ctx context.Context, c client.Client, key client.ObjectKey) {
	for ctx.Err() == nil {
		now := time.Now()
		next := p.step(ctx, c, key, now)
		var timer <-chan time.Time
		if !next.IsZero() {
			timer = time.After(max(0, next.Sub(now)))
		}
		select {
		case <-p.wake:
		case <-timer:
		case <-ctx.Done():
		}
	}
}

// step lets all groups decide, and writes what is due. It returns when to call it again even if nothing happens.
func (p *Part) step(ctx context.Context, c client.Client, key client.ObjectKey, now time.Time) (next time.Time) {
	var again decision
	var writes []write
	released := map[*engine.Engine][]types.NamespacedName{}
	p.mu.Lock()
	for e, one := range p.groups {
		d := one.decide(now, e.IsPaused)
		again.wake(d.again)
		released[e] = d.release
		progress := one.progress()
		report(e.Name, one, progress)
		p.logChanges(e, one, progress)
		switch w, at := one.write(progress, now); {
		case e.IsPaused(""): // a peer may handle the objects
		case w.isNeeded() && one.retryAt.After(now):
			again.wake(one.retryAt)
		case w.isNeeded():
			writes = append(writes, w)
		default:
			again.wake(at)
		}
	}
	p.mu.Unlock()
	for e, keys := range released {
		for _, key := range keys {
			e.EnqueueKey(key)
		}
	}
	for _, w := range writes {
		timed, cancel := context.WithTimeout(ctx, writeTimeout)
		err := rollout.Change(timed, c, key, w.kind, func(s *rollout.State) error { w.apply(s, p.shard(), now); return nil })
		cancel()
		p.mu.Lock()
		if err == nil {
			w.to.saved, w.to.savedAt, w.to.retryAt, w.to.unsaved = w.progress, now, time.Time{}, w.to.unsaved && w.halt == nil
		} else if ctx.Err() == nil {
			w.to.retryAt = now.Add(retryInterval)
			p.log().Error(rbac.Explain(err), "Failed to write the state of the rollout; retrying", "kind", w.kind, "retryAfter", retryInterval.String())
			again.wake(now.Add(retryInterval))
		}
		p.mu.Unlock()
	}
	return again.again
}

func report(kind string, one *entry, progress rollout.Progress) {
	for state, n := range map[string]int{"waiting": progress.Waiting, "running": progress.Running, "done": progress.Done, "failed": progress.Failed} {
		metrics.RolloutObjects.WithLabelValues(kind, state).Set(float64(n))
	}
	halted := 0.0
	if one.control.Halted != nil {
		halted = 1
	}
	metrics.RolloutHalted.WithLabelValues(kind).Set(halted)
}

// logChanges logs when a rollout begins, halts, goes on, and is over.
func (p *Part) logChanges(e *engine.Engine, one *entry, progress rollout.Progress) {
	if !one.isKnown || !one.isLoaded {
		return
	}
	log := p.log().WithValues("controller", e.Name, "revisions", one.revisions)
	isOver := progress.Waiting+progress.Running == 0
	switch isHalted := one.control.Halted != nil; {
	case !one.hasBegun && !isOver:
		one.hasBegun, one.isHalted = true, isHalted
		log.Info("The rollout takes objects to newer revisions", "objects", progress.Total, "waiting", progress.Waiting, "canaries", one.canaries(), "halted", isHalted)
	case one.hasBegun && isOver:
		one.hasBegun = false
		log.Info("The rollout is complete", "objects", progress.Total, "failed", progress.Failed)
	case isHalted && !one.isHalted && !isOver:
		log.Info("The rollout is halted: see kopf rollout status, and kopf rollout resume", "by", one.control.Halted.By, "why", one.control.Halted.Message,
			"waiting", progress.Waiting, "failed", progress.Failed)
		one.isHalted = true
	case !isHalted && one.isHalted:
		log.Info("The rollout goes on", "waiting", progress.Waiting)
		one.isHalted = false
	}
}
