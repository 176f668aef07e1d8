package main

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A finding describes the operator's state on one object, and the cause that a starting operator would detect.
type finding struct {
	Namespace       string          `json:"namespace,omitempty"`
	Name            string          `json:"name"`
	Finalizer       bool            `json:"finalizer"`                 // whether the object has the finalizer of the operator
	OtherFinalizers []string        `json:"otherFinalizers,omitempty"` // finalizers of other controllers
	Deleting        bool            `json:"deleting"`                  // whether the object has a deletion timestamp
	Cause           string          `json:"cause"`                     // create, update, delete, none, or unknown
	Changed         []string        `json:"changed,omitempty"`         // paths of the changed fields
	Handlers        []handlerRecord `json:"handlers,omitempty"`
	Unknown         []string        `json:"unknown,omitempty"` // places of records of handlers that --handler does not name
	Problems        []string        `json:"problems,omitempty"`
}

// problemFinalizers is the beginning of the text that reports finalizers of other controllers.
const problemFinalizers = "the object is under deletion, but has finalizers of other controllers: "

// A handlerRecord is the progress of a handler.
type handlerRecord struct {
	ID       string `json:"id"`
	Cause    string `json:"cause,omitempty"`
	State    string `json:"state"` // due, waiting, succeeded, or failed; in reports also retrying, or another state of package explain
	Attempts int    `json:"attempts"`
	Due      string `json:"due,omitempty"`
	Message  string `json:"message,omitempty"`

	record progress.Record
}

// unfinished reports whether the operator will call the handler again.
func (h handlerRecord) unfinished() bool { return h.State == "due" || h.State == "waiting" }

// An inspector computes findings. Its settings must match the settings of the operator.
type inspector struct {
	storage
	handlers []string   // ids of the handlers; empty if unknown
	fields   [][]string // fields of the status with handlers
	now      time.Time
}

// prepare validates and parses the flags. Fields are dotted paths, with "\." for a dot in a key.
func (i *inspector) prepare(fields []string) error {
	const dot = "\x00"
	for _, field := range fields {
		path := strings.Split(strings.ReplaceAll(field, `\.`, dot), ".")
		for n, key := range path {
			path[n] = strings.ReplaceAll(key, dot, ".")
		}
		if slices.Contains(path, "") {
			return fmt.Errorf(`--field is %q: set a path such as "status.phase", with "\." for a dot in a key`, field)
		}
		i.fields = append(i.fields, path)
	}
	if slices.Contains(i.handlers, "") {
		return errors.New("--handler is empty: set the id of a handler, or remove the flag")
	}
	return i.check()
}

func (i *inspector) inspect(obj *unstructured.Unstructured) finding {
	f := finding{
		Namespace: obj.GetNamespace(), Name: obj.GetName(),
		Finalizer:       i.hasFinalizer(obj),
		Deleting:        obj.GetDeletionTimestamp() != nil,
		OtherFinalizers: slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(name string) bool { return name == i.finalizer }),
	}
	if f.Deleting && len(f.OtherFinalizers) > 0 {
		f.Problems = append(f.Problems, problemFinalizers+strings.Join(f.OtherFinalizers, ", "))
	}
	f.Cause = i.cause(obj, &f)
	i.records(obj, &f)
	return f
}

// cause returns the cause that a starting operator would detect, "none" if there is none, or "unknown". It adds changed fields and problems to
// the finding.
func (i *inspector) cause(obj *unstructured.Unstructured, f *finding) string {
	facts := cause.Facts{Deleting: f.Deleting, HasFinalizer: f.Finalizer}
	baseline := i.lastHandled()
	if stored := baseline.Fetch(obj); stored != nil {
		shape := essence.Builder{Fields: i.fields, Cleaners: []essence.Cleaner{i.store(), baseline, i.pin(), i.stamps()}}
		then, err := shape.Decode(stored)
		switch {
		case err != nil:
			f.Problems = append(f.Problems, "the last-handled configuration is unreadable and treated as absent: "+err.Error())
		case then[essence.DigestDocumentKey] != nil && !f.Deleting:
			if obj.GroupVersionKind().GroupKind() != (schema.GroupKind{Kind: "Secret"}) { // for which this is the default
				f.Problems = append(f.Problems, "only a digest of the last-handled configuration is stored, because the object is too large, or because of WithDigestOnly: "+
					"kopf in Python would handle the object as changed")
			}
			now, err := essence.Encode(shape.Build(obj.Object))
			if err != nil || then[essence.DigestDocumentKey] != essence.Digest(now) {
				return "unknown" // the operator may have compared a Go type
			}
			facts.HasBaseline = true
		default:
			shape.Conditions = conditionsOf(then)
			facts.HasBaseline = true
			for _, item := range diff.Of(then, shape.Build(obj.Object)) {
				facts.Changed = true
				f.Changed = append(f.Changed, strings.Join(item.Path, "."))
			}
		}
	}
	if reason := facts.DetectReason(); reason.HasHandlers() {
		return string(reason)
	}
	return "none"
}

// conditionsOf returns the types of the conditions in the last-handled configuration.
func conditionsOf(then map[string]any) (types []string) {
	statuses, _ := then[essence.ConditionsKey].(map[string]any)
	for name := range statuses {
		types = append(types, name)
	}
	return types
}

// records adds the progress of the handlers to the finding. Without --handler, it uses the names of annotations instead of ids, because an id
// cannot be derived from an annotation. Records in the status have ids.
func (i *inspector) records(obj *unstructured.Unstructured, f *finding) {
	store := i.store()
	rest := obj.DeepCopy()
	state, err := progress.Load(store, obj, i.handlers)
	if err != nil {
		f.Problems = append(f.Problems, strings.Split(err.Error(), "\n")...)
	}
	add := func(id string) (record progress.Record) {
		if record = state.Record(id); !reflect.ValueOf(record).IsZero() {
			f.Handlers = append(f.Handlers, i.state(id, record))
		}
		return record
	}
	for _, id := range i.handlers {
		for _, sub := range add(id).Subrefs {
			add(sub)
		}
	}
	_ = state.Purge(store, rest) // Purge cannot fail, because rest is a copy in memory
	for _, key := range i.annotations(rest) {
		value := rest.GetAnnotations()[key]
		if !isRecord(value) {
			continue
		}
		if len(i.handlers) > 0 {
			f.Unknown = append(f.Unknown, key)
			continue
		}
		var record progress.Record
		_, name, _ := strings.Cut(key, "/")
		if err := json.Unmarshal([]byte(value), &record); err != nil {
			f.Problems = append(f.Problems, key+" is unreadable and treated as absent: "+err.Error())
			continue
		}
		f.Handlers = append(f.Handlers, i.state(name, record))
	}
	if i.prefix == progress.DefaultPrefix {
		i.statusRecords(rest, f)
	}
}

// statusRecords adds the records in status.kopf.progress, which the default store also reads. It omits records that are also in annotations.
func (i *inspector) statusRecords(obj *unstructured.Unstructured, f *finding) {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "kopf", "progress") // without a status, there are no records
	records, _ := value.(map[string]any)
	for _, id := range slices.Sorted(maps.Keys(records)) {
		if record, _ := progress.Annotations(i.prefix).Fetch(obj, id); record != nil {
			continue
		}
		record, err := progress.Status("").Fetch(obj, id)
		switch {
		case record == nil && err == nil: // a purged record
		case len(i.handlers) > 0:
			f.Unknown = append(f.Unknown, "status.kopf.progress."+id)
		case err != nil:
			f.Problems = append(f.Problems, err.Error())
		default:
			f.Handlers = append(f.Handlers, i.state(id, *record))
		}
	}
}

func (i *inspector) state(id string, record progress.Record) handlerRecord {
	h := handlerRecord{ID: id, Cause: record.Purpose, Attempts: record.Retries, Message: record.Message, record: record}
	switch {
	case record.Success:
		h.State = "succeeded"
	case record.Failure:
		h.State = "failed"
	case record.Due(i.now):
		h.State = "due"
	default:
		h.State, h.Due = "waiting", record.Delayed.UTC().Format(time.RFC3339)
	}
	return h
}
