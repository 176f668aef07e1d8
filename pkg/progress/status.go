package progress

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	defaultProgressField = "status.kopf.progress"
	defaultBaselineField = "status.kopf.last-handled-configuration"
)

// Status stores the records in a field of the object, as one nested object for each id. The field is a dotted path; an empty path means
// "status.kopf.progress". The store omits empty fields of a record.
//
// The kind must have the field in its Go type and in the schema of its CustomResourceDefinition. [CheckType] and [CheckSchema] verify this.
// If the kind has the status subresource, remember to write the status, too.
//
// Equivalent in kopf: StatusProgressStorage.
func Status(field string) Store {
	if field == "" {
		field = defaultProgressField
	}
	return statusStore{objectField(field)}
}

type statusStore struct{ field objectField }

// recordFields are the fields of a record in the status.
var recordFields = []string{"started", "stopped", "delayed", "purpose", "retries", "success", "failure", "message", "subrefs"}

// Check implements [Checker].
func (s statusStore) Check() error { return s.field.check() }

// Fields implements [FieldUser].
func (s statusStore) Fields() []string {
	fields := make([]string, len(recordFields))
	for i, name := range recordFields {
		fields[i] = string(s.field) + ".*." + name
	}
	return fields
}

// Key implements [KeyChecker]. It returns the id unchanged.
func (s statusStore) Key(id string) (string, error) {
	if id == "" {
		return "", errEmptyID
	}
	return id, nil
}

func (s statusStore) place(id string) string { return string(s.field) + "." + id }

func (s statusStore) Fetch(obj client.Object, id string) (*Record, error) { return fetch(s, obj, id) }

func (s statusStore) Store(obj client.Object, id string, record Record) error {
	return s.change(obj, []recordChange{{id, &record}})
}

func (s statusStore) Purge(obj client.Object, id string) error {
	return s.change(obj, []recordChange{{id: id}})
}

// reader implements [bulkStore].
func (s statusStore) reader(obj client.Object) recordReader { return new(s.readerOf(obj)) }

func (s statusStore) readerOf(obj client.Object) statusReader {
	return statusReader{store: s, obj: obj}
}

// A statusReader converts the object only when it reads the first record.
type statusReader struct {
	store     statusStore
	obj       client.Object
	converted bool
	records   map[string]any
	err       error
}

func (r *statusReader) read(id string) (*Record, bool, error) {
	if !r.converted {
		value, err := r.store.field.read(r.obj)
		r.records, _ = value.(map[string]any)
		r.converted, r.err = true, err
	}
	value, stored := r.records[id]
	if r.err != nil || value == nil {
		return nil, stored, r.err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, stored, &UnreadableError{Place: r.store.place(id), Err: err}
	}
	record, err := decodeRecord(text)
	if err != nil {
		return nil, stored, &UnreadableError{Place: r.store.place(id), Err: err}
	}
	return record, stored, nil
}

// change implements [bulkStore].
func (s statusStore) change(obj client.Object, changes []recordChange) error {
	fields := make([]fieldChange, 0, len(changes))
	for _, c := range changes {
		if c.record == nil {
			fields = append(fields, fieldChange{key: c.id})
			continue
		}
		text, err := c.record.MarshalJSON()
		if err != nil {
			return err
		}
		var record map[string]any
		if err := utiljson.Unmarshal(text, &record); err != nil {
			return err
		}
		delete(record, "attempted") // schemas have only kopf's fields
		fields = append(fields, fieldChange{c.id, record})
	}
	if err := s.field.changeBelow(obj, fields); err != nil {
		return fmt.Errorf("%s: %w", describeChanges(changes), err)
	}
	if slices.ContainsFunc(changes, func(c recordChange) bool { return c.record == nil }) {
		return s.removeTouch(obj)
	}
	return nil
}

// touchKey is the key next to the field; kopf changes it to trigger a new watch event for the object. We don't need it.
const touchKey = "dummy"

func (s statusStore) parent() objectField {
	return s.field[:max(0, strings.LastIndexByte(string(s.field), '.'))]
}

// removeTouch removes the touch key that a killed Python operator left behind.
func (s statusStore) removeTouch(obj client.Object) error {
	touch := s.parent() + "." + touchKey
	if _, isMap := obj.(*unstructured.Unstructured); !isMap && !touch.existsIn(reflect.TypeOf(obj)) {
		return nil
	}
	return s.parent().changeBelow(obj, []fieldChange{{key: touchKey}})
}

func describeChanges(changes []recordChange) string {
	verb, first := "storing", changes[0]
	if first.record == nil {
		verb = "purging"
	}
	if len(changes) == 1 {
		return fmt.Sprintf("%s the record of handler %q", verb, first.id)
	}
	return fmt.Sprintf("%s the records of handler %q and %d more", verb, first.id, len(changes)-1)
}

func (s statusStore) Clear(essence map[string]any) { s.field.clear(essence) }

var errEmptyID = errors.New("the id is empty: set one, because the record is stored under it")
