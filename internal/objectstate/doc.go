// Package objectstate keeps the data that the process has about each object of one kind. The data is only in memory.
//
//	states := objectstate.New[memory](objectstate.Options{}) // memory is a type with additional data of the worker
//	controller.Watch(source.Kind(cache, obj, states.EventHandler(nil)))
//	// in the reconciler:
//	for _, left := range states.TakeLeft(key) {
//		handleDeletion(left)
//	}
//	state := states.GetOrCreate(obj.GetUID())
//
// [Store.EventHandler] receives the events of the informer: it records objects and deletions, and adds keys to the work queue.
// [Store.Enqueue] adds keys for other reasons, if the controller also watches [Store.Source].
// The worker that takes a key from the queue reads the [State] of the object and the objects with this key that have left the cache.
//
// States are stored by uid, so a re-created object of the same name gets a new state. The store detects a deletion by a delete
// event, or by an update with another uid after a lost watch.
//
// Only one worker at a time may use the [State] of an object. The work queue of controller-runtime guarantees this. All methods of
// [Store] are safe for concurrent use.
//
// A state takes 64 bytes in an operator. It points to the last observed object, which is the copy of the cache. The store also has another copy of an object
// while a write of this process is newer than the cache.
package objectstate
