package watching

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// WithShardSelector makes an informer's lists and watches request and deliver only the objects that a shard selector selects. An API server
// that doesn't know shard selectors ignores them and sends all objects. The other ones are then dropped, and unselected is called for each
// of them.
//
// It doesn't rely on the shardInfo of lists, because this field is missing for custom resources, and in watches that start with the initial
// objects.
func WithShardSelector(lw toolscache.ListerWatcher, selector sharding.Selector, unselected func()) *toolscache.ListWatch {
	next := toolscache.ToListerWatcherWithContext(lw)
	isSelected := func(obj runtime.Object) bool {
		selected, err := selector.Matches(obj)
		if err != nil || selected {
			return true // Matches only fails for an object without metadata, which the informer reports
		}
		unselected()
		return false
	}
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.ShardSelector = selector.String()
			list, err := next.ListWithContext(ctx, options)
			if err != nil {
				return nil, err
			}
			return list, filterList(list, isSelected)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.ShardSelector = selector.String()
			w, err := next.WatchWithContext(ctx, options)
			if err != nil {
				return nil, err
			}
			return watch.Filter(w, func(event watch.Event) (watch.Event, bool) {
				isChange := event.Type == watch.Added || event.Type == watch.Modified || event.Type == watch.Deleted
				return event, !isChange || isSelected(event.Object)
			}), nil
		},
	}
}

// filterList removes the items from a list for which keep returns false.
func filterList(list runtime.Object, keep func(runtime.Object) bool) error {
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	var kept []runtime.Object
	for _, item := range items {
		if keep(item) {
			kept = append(kept, item)
		}
	}
	if len(kept) == len(items) {
		return nil
	}
	return meta.SetList(list, kept)
}
