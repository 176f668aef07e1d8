package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/revision"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
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

const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// namespace returns the namespace of the ConfigMap.
func (p *Part) namespace() (string, error) {
	namespace := cmp.Or(p.options.Namespace, os.Getenv("POD_NAMESPACE"))
	if namespace == "" {
		text, err := os.ReadFile(namespaceFile)
		if err != nil {
			return "", fmt.Errorf("the namespace of the ConfigMap is not known outside of a cluster: set Namespace, or the environment variable POD_NAMESPACE: %w", err)
		}
		namespace = strings.TrimSpace(string(text))
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

// watch keeps what the process knows about the ConfigMap up to date until the context is cancelled.
func (p *Part) watch(ctx context.Context, c client.WithWatch, key client.ObjectKey) {
	options := func(o metav1.ListOptions) *client.ListOptions {
		return &client.ListOptions{Namespace: key.Namespace, FieldSelector: fields.OneTermEqualSelector("metadata.name", key.Name), Raw: &o}
	}
	store, informer := toolscache.NewInformerWithOptions(toolscache.InformerOptions{
		ListerWatcher: &toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				list := &corev1.ConfigMapList{}
				return list, rbac.Explain(c.List(ctx, list, options(o)))
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return c.Watch(ctx, &corev1.ConfigMapList{}, options(o))
			},
		},
		ObjectType: &corev1.ConfigMap{},
		Handler: toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { p.take(obj.(*corev1.ConfigMap)) },
			UpdateFunc: func(_, obj any) { p.take(obj.(*corev1.ConfigMap)) },
			DeleteFunc: func(any) { p.take(&corev1.ConfigMap{}) },
		},
	})
	go func() {
		if toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) && len(store.ListKeys()) == 0 {
			p.takeFirst()
		}
	}()
	informer.RunWithContext(ctx)
}

// take takes over what the ConfigMap says.
func (p *Part) take(found *corev1.ConfigMap) {
	states, err := rollout.Decode(found)
	if err != nil {
		p.log().Error(err, "The state of a rollout is unreadable; the last one that was read counts")
	}
	p.mu.Lock()
	p.loaded, p.stored = states, found
	for _, one := range p.groups {
		p.pass(one)
	}
	p.mu.Unlock()
	p.wakeUp()
}

// takeFirst notes that the ConfigMap doesn't exist, unless it has been created in the meantime.
func (p *Part) takeFirst() {
	p.mu.Lock()
	isRead := p.stored != nil
	if !isRead {
		p.stored = &corev1.ConfigMap{}
		for _, one := range p.groups {
			p.pass(one)
		}
	}
	p.mu.Unlock()
	p.wakeUp()
}

// pass passes what the ConfigMap says to a group, unless it hasn't been read or is unreadable. The caller must hold the lock.
func (p *Part) pass(one *entry) {
	if p.stored == nil {
		return
	}
	state, isReadable := p.loaded[one.kind]
	if _, exists := p.stored.Data[one.kind]; isReadable || !exists {
		one.setControl(state)
	}
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

// write is a change of a kind's state in the ConfigMap.
type write struct {
	to        *entry
	kind      string
	revisions string
	halt      *rollout.Stop // nil unless the rollout has halted itself
	resumes   bool          // a user has asked for it
	progress  rollout.Progress
	isChanged bool
	isOver    bool
}

func (w *write) isNeeded() bool { return w.halt != nil || w.resumes || w.isChanged }

// write returns what to write for a group, or when to ask again.
func (one *entry) write(progress rollout.Progress, now time.Time) (w write, again time.Time) {
	if !one.isKnown || !one.isLoaded {
		return w, again
	}
	w = write{to: one, kind: one.kind, revisions: one.revisions, resumes: one.control.Resume, progress: progress}
	if one.unsaved {
		w.halt = one.control.Halted
	}
	isOver := progress.Waiting+progress.Running == 0
	w.isOver = isOver
	if one.isForeign && one.shard != "" && !one.begunAfter(one.foreign) { // shards may have different versions, of which the newest counts
		return write{}, again
	}
	again = one.nextGone()
	if one.isForeign && one.shard == "" || !again.IsZero() && !again.After(now) || isOver && one.hasLeftover() {
		w.isChanged = true
		return w, again
	}
	if w.isChanged = progress != one.savedProgress(now); w.isChanged && !isOver && !one.savedAt.IsZero() {
		hasResumed := one.saved.Running == 0 && progress.Running > 0 // someone may be waiting for that
		if due := one.savedAt.Add(saveInterval); due.After(now) && !hasResumed {
			w.isChanged, again = false, due
		}
	}
	return w, again
}

// goneAfter is the time after which the progress of another shard is removed if its objects are unfinished. A shard that still runs writes
// it again.
const goneAfter = time.Hour

func isGone(p rollout.Progress, now time.Time) bool {
	return p.Waiting+p.Running > 0 && now.Sub(p.At) > goneAfter
}

// begunAfter reports whether the rollout has begun, and after those of other revisions.
func (one *entry) begunAfter(other map[string]rollout.Progress) bool {
	if one.begun.IsZero() {
		return false
	}
	for _, p := range other {
		if p.Begun.After(one.begun) {
			return false
		}
	}
	return true
}

// hasLeftover reports whether the ConfigMap has a halt or a resumption, although the objects of all shards are finished.
func (one *entry) hasLeftover() bool {
	for name, p := range one.stored.Progress {
		if name != one.shard && p.Waiting+p.Running > 0 {
			return false
		}
	}
	return one.stored.Halted != nil || one.stored.Resumed != nil || one.stored.Resume
}

// nextGone returns when the first other shard counts as gone, or zero.
func (one *entry) nextGone() (next time.Time) {
	for name, p := range one.control.Progress {
		if at := p.At.Add(goneAfter + time.Second); name != one.shard && p.Waiting+p.Running > 0 && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// savedProgress returns the progress that the ConfigMap contains, as far as it is known.
func (one *entry) savedProgress(now time.Time) rollout.Progress {
	stored, exists := one.control.Progress[one.shard]
	if !exists && one.saved.Total > 0 && now.Sub(one.savedAt) > goneAfter {
		return rollout.Progress{} // another shard has removed it
	}
	if !one.savedAt.IsZero() {
		return one.saved
	}
	stored.At = time.Time{}
	return stored
}

func (w *write) apply(s *rollout.State, shard string, now time.Time) {
	if s.Revisions != w.revisions {
		*s = rollout.State{Revisions: w.revisions}
	}
	now = now.UTC().Truncate(time.Second)
	if isOthers := slices.ContainsFunc(slices.Collect(maps.Keys(s.Progress)), func(name string) bool {
		return name != shard && s.Progress[name].Waiting+s.Progress[name].Running > 0
	}); w.isOver && !isOthers {
		s.Resume, s.Halted, s.Resumed = false, nil, nil
	} else if s.Resume {
		s.Resume, s.Halted, s.Resumed = false, nil, &now
	} else if w.halt != nil && s.Halted == nil {
		s.Halted = w.halt
	}
	if s.Progress == nil {
		s.Progress = map[string]rollout.Progress{}
	}
	maps.DeleteFunc(s.Progress, func(name string, p rollout.Progress) bool { return name != shard && isGone(p, now) })
	last := s.Progress[shard]
	if last.At = (time.Time{}); last != w.progress {
		w.progress.At = now
		s.Progress[shard] = w.progress
		w.progress.At = time.Time{}
	}
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
