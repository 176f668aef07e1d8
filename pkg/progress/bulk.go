package progress

import (
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A bulkStore is a [Store] that can read and change many records of an object at once. Users decide how many records an object has, so we
// can't copy all annotations, or convert the whole object, for each of them: that would take quadratic time.
type bulkStore interface {
	// reader returns a reader of the object's records. The object must not change while the reader is in use.
	reader(obj client.Object) recordReader
	// change applies the changes, in order.
	change(obj client.Object, changes []recordChange) error
}

// A recordReader reads the records of one object.
type recordReader interface {
	// read is like [Store.Fetch], but also reports whether the object has any value for the id. A null counts: it isn't a record, but must
	// be purged.
	read(id string) (record *Record, stored bool, err error)
}

// A recordChange stores the record of a handler or, if the record is nil, removes all its values.
type recordChange struct {
	id     string
	record *Record
}

func readerOf(store Store, obj client.Object) recordReader {
	if bulk, ok := store.(bulkStore); ok {
		return bulk.reader(obj)
	}
	return fetchReader{store, obj}
}

// A fetchReader reads the records of a store that isn't a bulkStore.
type fetchReader struct {
	store Store
	obj   client.Object
}

func (r fetchReader) read(id string) (*Record, bool, error) {
	record, err := r.store.Fetch(r.obj, id)
	return record, record != nil || err != nil, err
}

func applyChanges(store Store, obj client.Object, changes []recordChange) error {
	if len(changes) == 0 {
		return nil
	}
	if bulk, ok := store.(bulkStore); ok {
		return bulk.change(obj, changes)
	}
	var errs []error
	for _, c := range changes {
		if c.record == nil {
			errs = append(errs, store.Purge(obj, c.id))
		} else {
			errs = append(errs, store.Store(obj, c.id, *c.record))
		}
	}
	return errors.Join(errs...)
}

// fetch implements [Store.Fetch] for a bulkStore.
func fetch(store bulkStore, obj client.Object, id string) (*Record, error) {
	record, _, err := store.reader(obj).read(id)
	return record, err
}
