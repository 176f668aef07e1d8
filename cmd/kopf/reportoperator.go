package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/statuspage"
	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// report adds the selected objects to a report. With --operator, the states come from the operator. Otherwise, they come from
// the records on the objects.
func (o *operatorEndpoint) report(ctx context.Context, r *reportData, look *inspector, which *selection, args []string) error {
	single := len(args) == 2
	var listed map[string]statuspage.Object
	if o.url != "" && !single {
		var kinds []statuspage.Kind
		if err := o.get(ctx, statuspage.ObjectsPath, &kinds); err != nil {
			return err
		}
		listed = map[string]statuspage.Object{}
		for _, kind := range kinds {
			for _, obj := range kind.Objects {
				listed[keyOf(schema.GroupKind{Group: kind.Group, Kind: kind.Kind}, obj.Namespace, obj.Name)] = obj
			}
		}
	}
	return which.each(ctx, args, func(ctx context.Context, _ client.Client, obj *unstructured.Unstructured) error {
		switch {
		case o.url == "":
			r.add(look, obj, single)
		case single:
			x, err := o.explain(ctx, obj)
			if err != nil {
				return err
			}
			r.addExplained(look, x)
			r.addHistory(look, obj)
		default:
			r.addListed(look, listed[keyOf(obj.GroupVersionKind().GroupKind(), obj.GetNamespace(), obj.GetName())])
		}
		return nil
	})
}

func keyOf(kind schema.GroupKind, namespace, name string) string {
	return kind.String() + "/" + namespace + "/" + name
}

// wants reports whether --handler selects a handler or its parent.
func (i *inspector) wants(id string) bool {
	return len(i.handlers) == 0 || slices.ContainsFunc(i.handlers, func(wanted string) bool { return id == wanted || strings.HasPrefix(id, wanted+"/") })
}

// addListed adds an object from the list of the operator. Such a list has no time line. Objects without unfinished handlers
// increase only the total.
func (r *reportData) addListed(look *inspector, obj statuspage.Object) {
	r.Total++
	object := &reportObject{Name: strings.TrimPrefix(obj.Namespace+"/"+obj.Name, "/"), Cause: "unknown", Handlers: map[string]handlerRecord{}}
	for _, u := range obj.Unfinished {
		if look.wants(u.Handler) {
			r.addHandler(object, handlerRecord{ID: u.Handler, State: oneLine(string(u.State)), Attempts: u.Attempts, Message: u.Error}, false)
		}
	}
	if len(object.Handlers) > 0 {
		r.Objects = append(r.Objects, object)
	}
}

// addExplained adds an object from an explanation of the operator: the handlers that have begun, and a time line with their
// attempts.
func (r *reportData) addExplained(look *inspector, x *explain.Explanation) {
	r.Total++
	object := &reportObject{Name: x.ObjectName(), Cause: oneLine(x.Cause), Handlers: map[string]handlerRecord{}}
	r.Objects = append(r.Objects, object)
	for _, attempt := range x.Attempts {
		if look.wants(attempt.Handler) {
			attempt.State = explain.State(oneLine(string(attempt.State)))
			r.Attempts = append(r.Attempts, attempt)
		}
	}
	for _, h := range x.Handlers {
		if h.Started == nil || !look.wants(h.ID) {
			continue
		}
		one := handlerRecord{ID: h.ID, Cause: x.Cause, State: oneLine(string(h.State)), Attempts: h.Attempts, Message: h.LastError, record: progress.Record{Started: *h.Started}}
		if h.Due != nil {
			one.Due, one.record.Delayed = h.Due.UTC().Format(time.RFC3339), *h.Due
		}
		if h.Ended != nil {
			one.record.Stopped = *h.Ended
		}
		for _, attempt := range x.Attempts {
			if attempt.Handler == h.ID {
				one.record.Attempted = attempt.Ended
			}
		}
		r.addHandler(object, one, true)
	}
	r.addUnrecorded()
}

// addUnrecorded adds the handlers that have attempts and no records, such as timers, to the time line.
func (r *reportData) addUnrecorded() {
	for i, attempt := range r.Attempts {
		if slices.ContainsFunc(r.TimeLine, func(e reportTimeEntry) bool { return e.Handler == attempt.Handler }) {
			continue
		}
		entry := reportTimeEntry{Handler: attempt.Handler, Cause: attempt.Reason, Started: attempt.Started.UTC()}
		for _, later := range r.Attempts[i:] {
			if later.Handler != attempt.Handler {
				continue
			}
			entry.Attempts, entry.State, entry.Message, entry.Stopped = entry.Attempts+1, string(later.State), later.Error, nil
			if !later.Ended.IsZero() {
				entry.Stopped = new(later.Ended.UTC())
			}
		}
		r.TimeLine = append(r.TimeLine, entry)
	}
}
