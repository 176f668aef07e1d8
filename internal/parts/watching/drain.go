package watching

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// NewDrainedInformer returns an informer that keeps receiving a watch's remaining events after it has stopped the watch.
// controller-runtime's cache passes the watches of metadata-only kinds through [watch.Filter], whose goroutine blocks forever on an event
// that isn't received. So each removed kind could leak a goroutine, and a testing/synctest bubble doesn't finish while one of its
// goroutines is blocked.
func NewDrainedInformer(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	if listWatch, ok := lw.(*toolscache.ListWatch); ok && listWatch.WatchFuncWithContext != nil {
		start := listWatch.WatchFuncWithContext
		listWatch.WatchFuncWithContext = func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			w, err := start(ctx, opts)
			if err != nil {
				return nil, err
			}
			return drainedWatch{w}, nil
		}
	}
	return toolscache.NewSharedIndexInformer(lw, obj, resync, indexers)
}

// A drainedWatch receives the remaining events after Stop.
type drainedWatch struct {
	watch.Interface
}

// Stop stops the watch.
func (w drainedWatch) Stop() {
	w.Interface.Stop()
	go func() {
		for range w.ResultChan() { // receive until the watch closes the channel
		}
	}()
}
