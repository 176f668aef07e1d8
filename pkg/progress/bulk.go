package progress

import (
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A bulkStore is a [Store] that reads and changes many records of an object at once. Other stores may copy all annotations, or convert the whole object,
// for each record. Users choose the number of records on an object, so this must not take quadratic time.
type bulkStore interface {
	// reader returns a reader of the records of the object, which must not change as long as the reader is used.
	reader(obj client.Object) recordReader
	// change applies the changes in order.
	change(obj client.Object, changes []recordChange) error
}

// A recordReader reads the records of one object.
type recordReader interface {
	// read is [Store.Fetch]. It also reports whether the object has any value for the id, including a null. Fetch returns no record for a null, but the null
	// must be purged.
	read(id string) (record *Record, stored bool, err error)
}

// A recordChange stores the record of a handler. If the record is nil, the change removes all values of the handler.
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

// A fetchReader reads the records of a store that is not a bulkStore.
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
