package kinds

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// Discover looks up the kinds on the API server, and sets their HasStatus and Namespaced. It returns an error if the API server doesn't
// serve a kind or a related kind, or if required verbs or fields are missing.
func (r *Runtime) Discover(ctx context.Context, kinds []Kind) error {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(r.Manager.GetConfig(), endingWith(ctx, r.Manager.GetHTTPClient()))
	if err != nil {
		return fmt.Errorf("discovering the served kinds: %w", err)
	}
	var errs []error
	for i := range kinds {
		kind := &kinds[i]
		verbs, hasStatus, isNamespaced, err := discover(client, kind.GVK)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: discovering the kind: %w", kind.GVK.Kind, err))
		case verbs == nil:
			errs = append(errs, fmt.Errorf("%s: %w", kind.GVK.Kind, errNotServed(client, kind.GVK)))
		}
		if verbs != nil {
			errs = append(errs, CheckVerbs(&kind.Kind, kind.storesEvents(), verbs), checkSchema(ctx, client, &kind.Kind, r.storages(kind)))
			if kind.CheckFields != nil {
				go r.warnAboutFields(ctx, client, kind.GVK, kind.CheckFields)
			}
		}
		for _, c := range kind.Related {
			errs = append(errs, c.checkServed(client, &kind.Kind, isNamespaced))
		}
		kind.HasStatus, kind.Namespaced = hasStatus, isNamespaced
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("the operator cannot start:\n%w", err)
	}
	return nil
}

// storages returns what stores state on the objects of a kind. With a remote, nothing does.
func (r *Runtime) storages(kind *Kind) (all []any) {
	if r.Settings.Remote != nil {
		return nil
	}
	all = append(all, r.Settings.Store, r.Settings.Baseline)
	for _, store := range kind.HandlerStores() {
		all = append(all, store)
	}
	return all
}

// warnAboutFields is for kinds without a Go type. It logs a message for each handler field that the kind's schema lacks, and for each
// compared value that a field can't have. These aren't errors, because the schema can change while the operator runs. It waits for the
// schema, so run it in the background.
func (r *Runtime) warnAboutFields(ctx context.Context, client discovery.DiscoveryInterface, gvk schema.GroupVersionKind, check fieldCheck) {
	logger := r.Manager.GetLogger().WithValues("kind", gvk.Kind)
	published, err := AwaitSchema(ctx, client, gvk)
	if err != nil {
		logger.V(1).Info("Failed to read the schema of the kind; the fields of handlers are not checked", "error", err.Error())
		return
	}
	check(published, func(handler, field string, problem error) {
		logger.Info("The field of a handler does not fit the schema of the kind", "handler", handler, "field", field, "problem", problem.Error())
	})
}
