// Package objectstate keeps what the process knows about each object of one kind. It is kept only in memory.
//
//	states := objectstate.New[memory](objectstate.Options{}) // memory is a type with additional data of the worker
//	controller.Watch(source.Kind(cache, obj, states.EventHandler(nil)))
//	// in the reconciler:
//	for _, left := range states.TakeLeft(key) {
//		handleDeletion(left)
//	}
//	state := states.GetOrCreate(obj.GetUID())
//
// [Store.EventHandler] receives the informer's events. It records objects and deletions, and adds keys to the work queue. [Store.Enqueue]
// adds keys for other reasons, provided that the controller also watches [Store.Source]. The worker that takes a key from the queue reads
// the object's [State], and the objects with this key that have left the cache.
//
// States are stored by uid, so a re-created object of the same name gets a new state. The store notices a deletion from a delete event, or,
// after a lost watch, from an update with a different uid.
//
// Only one worker at a time may use an object's [State], which controller-runtime's work queue guarantees. All methods of [Store] are safe
// for concurrent use.
//
// In an operator, a state takes 64 bytes. It points to the last observed object, which it shares with the cache. The store keeps a second
// copy of an object only while a write of this process is newer than the cache.
package objectstate
