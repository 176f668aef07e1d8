package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A finding is what an operator would see in an object, if it were started now.
type finding struct {
	Namespace string          `json:"namespace,omitempty"`
	Name      string          `json:"name"`
	Held      bool            `json:"held"`              // it has the finalizer
	HeldBy    []string        `json:"heldBy,omitempty"`  // other finalizers
	Deleting  bool            `json:"deleting"`          // it is being deleted
	Cause     string          `json:"cause"`             // create, update, delete, or none; unknown, if the baseline does not tell
	Changed   []string        `json:"changed,omitempty"` // the fields that make it an update, without their values
	Handlers  []handlerRecord `json:"handlers,omitempty"`
	Unknown   []string        `json:"unknown,omitempty"` // annotations with records of handlers that nobody has named
	Problems  []string        `json:"problems,omitempty"`
}

// A handlerRecord is how far a handler is.
type handlerRecord struct {
	ID       string `json:"id"`
	Cause    string `json:"cause,omitempty"`
	State    string `json:"state"` // due, waiting, succeeded, failed
	Attempts int    `json:"attempts"`
	Due      string `json:"due,omitempty"`
	Message  string `json:"message,omitempty"`
}

// An inspector knows where an operator keeps things, and what else is to be known of its code.
type inspector struct {
	place
	handlers []string   // ids; none: not known
	fields   [][]string // that handlers are for, outside of what is essential anyway
	now      time.Time
}

// prepare checks what was asked for. Fields are dotted paths; a dot within a key is escaped.
func (i *inspector) prepare(fields []string) error {
	const dot = "\x00"
	for _, field := range fields {
		path := strings.Split(strings.ReplaceAll(field, `\.`, dot), ".")
		for n, key := range path {
			path[n] = strings.ReplaceAll(key, dot, ".")
		}
		if slices.Contains(path, "") {
			return fmt.Errorf(`--field is %q: name one such as "status.phase", with "\." for a dot within a key`, field)
		}
		i.fields = append(i.fields, path)
	}
	if slices.Contains(i.handlers, "") {
		return errors.New("--handler is empty: give the id of a handler, or leave it out")
	}
	return i.check()
}

func (i *inspector) inspect(obj *unstructured.Unstructured) finding {
	f := finding{
		Namespace: obj.GetNamespace(), Name: obj.GetName(),
		Held:     i.holds(obj),
		Deleting: obj.GetDeletionTimestamp() != nil,
		HeldBy:   slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(name string) bool { return name == i.finalizer }),
	}
	if f.Deleting && len(f.HeldBy) > 0 {
		f.Problems = append(f.Problems, "it is being deleted, and held by finalizers of others: "+strings.Join(f.HeldBy, ", "))
	}
	f.Cause = i.cause(obj, &f)
	i.records(obj, &f)
	return f
}

// cause concludes what an operator concludes, from the same facts.
func (i *inspector) cause(obj *unstructured.Unstructured, f *finding) string {
	facts := cause.Facts{Deleting: f.Deleting, HasFinalizer: f.Held}
	baseline := i.lastHandled()
	if stored := baseline.Fetch(obj); stored != nil {
		shape := essence.Builder{Fields: i.fields, Cleaners: []essence.Cleaner{i.store(), baseline, i.pin()}}
		then, err := shape.Decode(stored)
		switch {
		case err != nil:
			f.Problems = append(f.Problems, "the last handled configuration is unreadable and taken as absent: "+err.Error())
		case then[essence.DigestKey] != nil && !f.Deleting:
			f.Problems = append(f.Problems, "the object is too large for its last handled configuration to be kept: only a digest of it is there; "+
				"kopf in Python takes the object for changed")
			now, err := essence.Encode(shape.Build(obj.Object))
			if err != nil || then[essence.DigestKey] != essence.Digest(now) {
				return "unknown" // the operator may have compared by a Go type
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
	if reason := cause.Detect(facts); reason.HasHandlers() {
		return string(reason)
	}
	return "none"
}

// conditionsOf are those that the operator has looked at when it handled the object.
func conditionsOf(then map[string]any) (types []string) {
	statuses, _ := then[essence.ConditionsKey].(map[string]any)
	for name := range statuses {
		types = append(types, name)
	}
	return types
}

// records reads how far handlers are. Of those that nobody has named, only the annotation is known: an id cannot be
// told from its name.
func (i *inspector) records(obj *unstructured.Unstructured, f *finding) {
	store := i.store()
	rest := obj.DeepCopy()
	for _, id := range i.handlers {
		record, err := store.Fetch(obj, id)
		if err != nil {
			f.Problems = append(f.Problems, err.Error())
		}
		if record == nil {
			continue
		}
		f.Handlers = append(f.Handlers, i.state(id, *record))
		_ = store.Purge(rest, id) // of a copy in memory
		for _, sub := range record.Subrefs {
			if record, err := store.Fetch(obj, sub); err == nil && record != nil {
				f.Handlers = append(f.Handlers, i.state(sub, *record))
			}
			_ = store.Purge(rest, sub)
		}
	}
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
			f.Problems = append(f.Problems, key+" is unreadable and taken as absent: "+err.Error())
			continue
		}
		f.Handlers = append(f.Handlers, i.state(name, record))
	}
}

func (i *inspector) state(id string, record progress.Record) handlerRecord {
	h := handlerRecord{ID: id, Cause: record.Purpose, Attempts: record.Retries, Message: record.Message}
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
