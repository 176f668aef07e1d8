package progress

import (
	"encoding/json"
	"errors"
	"fmt"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	defaultProgressField = "status.kopf.progress"
	defaultBaselineField = "status.kopf.last-handled-configuration"
)

// Status stores the records in a field of the object, as one nested object for each id. The field is a dotted path.
// An empty path selects "status.kopf.progress". The store omits empty fields of a record.
//
// The kind must have the field in its Go type and in the schema of its CustomResourceDefinition, see [CheckType] and
// [CheckSchema]. If the kind has the status subresource, the caller must also write the status.
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

func (s statusStore) Fetch(obj client.Object, id string) (*Record, error) {
	value, err := s.field.read(obj, id)
	if err != nil || value == nil {
		return nil, err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, &UnreadableError{Place: s.place(id), Err: err}
	}
	record, err := decodeRecord(text)
	if err != nil {
		return nil, &UnreadableError{Place: s.place(id), Err: err}
	}
	return record, nil
}

func (s statusStore) Store(obj client.Object, id string, record Record) error {
	text, err := record.MarshalJSON()
	if err != nil {
		return err
	}
	var fields map[string]any
	if err := utiljson.Unmarshal(text, &fields); err != nil {
		return err
	}
	delete(fields, "attempted") // schemas contain only the fields of kopf
	if err := s.field.write(obj, fields, id); err != nil {
		return fmt.Errorf("storing the record of handler %q: %w", id, err)
	}
	return nil
}

func (s statusStore) Purge(obj client.Object, id string) error {
	if err := s.field.remove(obj, id); err != nil {
		return fmt.Errorf("purging the record of handler %q: %w", id, err)
	}
	return nil
}

func (s statusStore) isStored(obj client.Object, id string) bool {
	value, err := s.field.read(obj)
	records, _ := value.(map[string]any)
	_, ok := records[id]
	return ok && err == nil
}

func (s statusStore) Clear(essence map[string]any) { s.field.clear(essence) }

// errEmptyID is the error of all stores for an empty id.
var errEmptyID = errors.New("the id is empty: set one, because the record is stored under it")
