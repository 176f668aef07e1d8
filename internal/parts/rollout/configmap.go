package rollout

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	"github.com/kopf-runtime/kopf-runtime/pkg/rollout"
)

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
	if one.isForeign() && one.shard != "" && !one.begunAfter(one.stored.Progress) { // shards may have different versions, of which the newest counts
		return write{}, again
	}
	again = one.nextGone()
	if one.isForeign() && one.shard == "" || !again.IsZero() && !again.After(now) || isOver && one.hasLeftover() {
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
