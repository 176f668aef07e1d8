package kinds

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/eventwatch"
	"github.com/kopf-runtime/kopf-runtime/pkg/clusterevents"
)

// An EventSelection is the selector of an OnEventAbout handler. Resolve sets the kinds.
type EventSelection struct {
	clusterevents.Selector
	ID      string
	Kinds   []schema.GroupVersionKind
	through []schema.GroupVersionKind // without those in Kinds
	own     schema.GroupVersionKind   // the kind of the resource
}

// Resolve checks the selector and sets the kinds.
func (s *EventSelection) Resolve(own client.Object, kindOf func(client.Object) (schema.GroupVersionKind, error)) error {
	if err := s.Check(); err != nil {
		return err
	}
	var errs []error
	resolve := func(field string, obj client.Object) schema.GroupVersionKind {
		gvk, err := kindOf(obj)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s(%T): the kind is not registered in the manager's scheme: call AddToScheme of its API package: %w", field, obj, err))
		}
		return gvk
	}
	s.Kinds, s.through, s.own = nil, nil, resolve("For", own)
	for _, one := range s.About {
		s.Kinds = append(s.Kinds, resolve("About", one))
	}
	if len(s.Kinds) == 0 {
		s.Kinds = []schema.GroupVersionKind{s.own}
	}
	for _, one := range s.Through {
		if gvk := resolve("Through", one); !slices.Contains(s.Kinds, gvk) {
			s.through = append(s.through, gvk)
		}
	}
	return errors.Join(errs...)
}

// String describes the Events for explanations.
func (s *EventSelection) String() string {
	var parts []string
	if slices.ContainsFunc(s.Kinds, func(gvk schema.GroupVersionKind) bool { return gvk.GroupKind() == s.own.GroupKind() }) {
		parts = append(parts, "the object")
	}
	for _, gvk := range s.Kinds {
		if gvk.GroupKind() != s.own.GroupKind() {
			parts = append(parts, "objects of the kind "+gvk.Kind+" that belong to it")
		}
	}
	return s.Selector.String() + " about " + strings.Join(parts, " or ")
}

// Read returns the kinds whose metadata the operator reads to find the owners of the objects that Events are about.
func (s *EventSelection) Read() []schema.GroupVersionKind {
	return slices.DeleteFunc(slices.Concat(s.Kinds, s.through), func(gvk schema.GroupVersionKind) bool { return gvk.GroupKind() == s.own.GroupKind() })
}

// WithDefaultNamespace adds the namespace "default", which contains the Events about cluster-scoped objects. It leaves an empty list as it
// is, because that means all namespaces.
func WithDefaultNamespace(namespaces []string) []string {
	if len(namespaces) == 0 || slices.Contains(namespaces, metav1.NamespaceDefault) {
		return namespaces
	}
	return append(slices.Clone(namespaces), metav1.NamespaceDefault)
}

// eventWatchOptions returns the options for one handler's watches. The caller must set the fields Client, Namespace, Kind and Group.
func eventWatchOptions(e *engine.Engine, s *EventSelection, reporters []string, owners *eventwatch.Owners) eventwatch.Options {
	logger := e.Log.WithValues("controller", e.Name, "handler", s.ID)
	return eventwatch.Options{
		Selector: s.Selector, Reporters: reporters, Log: logger,
		Deliver: func(ctx context.Context, d eventwatch.Delivery) ([]eventwatch.Owner, error) {
			found, err := owners.Of(ctx, logger, d.Event.InvolvedObject)
			if err != nil {
				// With Since, an annotation on the object records the newest handled Event, so a later Event must not be handled first.
				if s.Since > 0 && isTransient(err) {
					return nil, &eventwatch.OrderedError{Err: err}
				}
				return nil, err
			}
			var unobserved []eventwatch.Owner
			for _, owner := range found {
				if d.Unobserved != nil && !slices.Contains(d.Unobserved, owner) {
					continue
				}
				event := invoke.ClusterEvent{Event: d.Event, Earlier: d.Earlier, Waiting: func() []*corev1.Event { return d.Waiting(owner) }}
				if !e.AddClusterEvent(owner.Key, owner.UID, s.ID, event) {
					unobserved = append(unobserved, owner)
				}
			}
			if len(unobserved) > 0 {
				return found, &eventwatch.UnobservedError{Owners: unobserved}
			}
			return found, nil
		},
	}
}

// isTransient reports whether retrying a request can help even if permissions and declarations stay the same.
func isTransient(err error) bool {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return status.Status().Code >= http.StatusInternalServerError || apierrors.IsTooManyRequests(err) || apierrors.IsUnauthorized(err)
	}
	return !meta.IsNoMatchError(err)
}
