package webhooks

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// configurationWriter writes the two webhook configurations with server-side apply, which leaves other owners' fields unchanged.
type configurationWriter struct {
	options Options
	client  client.Client // client without a cache
	now     func() time.Time

	lastWritten map[hookKind]writtenEntries
	missing     map[hookKind][]string // names of the entries that the last reconcile of injected configurations didn't find
}

// writtenEntries are the entries of the last write.
type writtenEntries struct {
	entries []entry
	at      time.Time
}

// conflictBackoff is the minimum time between two writes of the same entries, so that conflicting writers don't overload the API server.
const conflictBackoff = 5 * time.Second

// ensure writes the kind's configuration if its entries or annotations differ from the desired ones. For managed configurations, the first
// call always writes. complete reports whether the configuration has all desired entries. If it doesn't, again is the maximum delay until
// the next call.
func (c *configurationWriter) ensure(ctx context.Context, kind hookKind, entries []entry) (complete bool, again time.Duration, err error) {
	if c.options.Configurations == Unmanaged {
		return true, 0, nil
	}
	live := newConfiguration(kind, Options{Name: c.options.Name}, nil)
	err = c.client.Get(ctx, client.ObjectKeyFromObject(live), live)
	exists := err == nil
	if err != nil && !apierrors.IsNotFound(err) {
		return false, 0, err
	}
	if c.options.Configurations == Injected {
		return c.injectCABundle(ctx, kind, live, exists, entries)
	}
	_, written := c.lastWritten[kind]
	if len(entries) == 0 {
		if !exists || !isManagedBy(live, c.options.FieldOwner) {
			return true, 0, nil // don't create an empty configuration
		}
		return true, 0, c.removeOwnEntries(ctx, kind)
	}
	if written && exists && c.isUpToDate(live, entries) {
		return true, 0, nil
	}
	if pause := c.conflictDelay(ctx, kind, entries); pause > 0 {
		return false, pause, nil
	}
	desired := make([]any, len(entries))
	for i, e := range entries {
		if desired[i], err = toUnstructured(kind, e); err != nil {
			return false, 0, err
		}
	}
	if _, err := c.apply(ctx, kind, desired); err != nil {
		return false, 0, err
	}
	c.lastWritten[kind] = writtenEntries{entries: entries, at: c.now()}
	log.FromContext(ctx).Info("Webhook configuration written", "kind", kind, "configuration", c.options.Name, "entries", len(entries))
	return true, 0, nil
}

// conflictDelay returns the delay before the entries are written again. If the last write had the same entries, another client has changed
// them since.
func (c *configurationWriter) conflictDelay(ctx context.Context, kind hookKind, entries []entry) time.Duration {
	last, written := c.lastWritten[kind]
	if !written || !equality.Semantic.DeepEqual(last.entries, entries) {
		return 0
	}
	if since := c.now().Sub(last.at); since < conflictBackoff {
		return conflictBackoff - since
	}
	log.FromContext(ctx).Info("Restoring webhook configuration entries changed by another client", "kind", kind, "configuration", c.options.Name)
	return 0
}

// forget makes the next call of ensure write the entries even if they are unchanged.
func (c *configurationWriter) forget(kind hookKind) { delete(c.lastWritten, kind) }

// isUpToDate reports whether the configuration has the desired entries and annotations.
func (c *configurationWriter) isUpToDate(live client.Object, entries []entry) bool {
	is := map[string]entry{}
	for _, e := range entriesOf(live) {
		is[e.Name] = e
	}
	for _, wanted := range entries {
		e, there := is[wanted.Name]
		if len(wanted.ClientConfig.CABundle) == 0 {
			e.ClientConfig.CABundle = wanted.ClientConfig.CABundle // another client manages the caBundle
		}
		if e.ReinvocationPolicy == nil {
			e.ReinvocationPolicy = wanted.ReinvocationPolicy // validating entries lack the field
		}
		if !there || !equality.Semantic.DeepEqual(e, wanted) {
			return false
		}
	}
	for key, value := range c.options.Annotations {
		if live.GetAnnotations()[key] != value {
			return false
		}
	}
	return true
}

// injectCABundle writes the caBundle into existing entries. It doesn't change any other field.
func (c *configurationWriter) injectCABundle(ctx context.Context, kind hookKind, live client.Object, exists bool, entries []entry) (bool, time.Duration, error) {
	is := map[string]entry{}
	if exists {
		for _, e := range entriesOf(live) {
			is[e.Name] = e
		}
	}
	var desired []any
	var missing []string
	var present []entry
	stale := false
	for _, e := range entries {
		there, ok := is[e.Name]
		if !ok {
			missing = append(missing, e.Name)
			continue
		}
		present = append(present, e)
		stale = stale || !equality.Semantic.DeepEqual(there.ClientConfig.CABundle, e.ClientConfig.CABundle)
		desired = append(desired, map[string]any{
			"name": e.Name, "clientConfig": map[string]any{"caBundle": base64.StdEncoding.EncodeToString(e.ClientConfig.CABundle)},
		})
	}
	if !slices.Equal(missing, c.missing[kind]) {
		c.missing[kind] = missing
		if len(missing) > 0 {
			log.FromContext(ctx).Info("Entries are missing in the webhook configuration: apply the manifests printed by WriteManifests",
				"kind", kind, "handlers", missing, "configuration", c.options.Name)
		}
	}
	if stale {
		if pause := c.conflictDelay(ctx, kind, present); pause > 0 {
			return false, pause, nil
		}
		if _, err := c.apply(ctx, kind, desired); err != nil {
			return false, 0, err
		}
		c.lastWritten[kind] = writtenEntries{entries: present, at: c.now()}
	}
	if len(missing) > 0 {
		return false, maxRetryDelay, nil // the watch reports new entries; the delay is for a watch that has become forbidden
	}
	return true, 0, nil
}

// removeOwnEntries removes the operator's entries, and deletes the configuration if no other entries remain.
func (c *configurationWriter) removeOwnEntries(ctx context.Context, kind hookKind) error {
	remaining, err := c.apply(ctx, kind, nil)
	if err != nil {
		return err
	}
	delete(c.lastWritten, kind)
	if entries, _, _ := unstructured.NestedSlice(remaining.Object, "webhooks"); len(entries) > 0 {
		return nil
	}
	uid, version := remaining.GetUID(), remaining.GetResourceVersion()
	err = c.client.Delete(ctx, remaining, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if apierrors.IsConflict(err) {
		return nil // another client has changed the configuration
	}
	return client.IgnoreNotFound(err)
}

func (c *configurationWriter) apply(ctx context.Context, kind hookKind, entries []any) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(newConfiguration(kind, c.options, nil).GetObjectKind().GroupVersionKind())
	u.SetName(c.options.Name)
	if c.options.Configurations == Managed && len(entries) > 0 {
		u.SetAnnotations(c.options.Annotations)
	}
	if len(entries) > 0 {
		u.Object["webhooks"] = entries
	}
	err := c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u),
		client.FieldOwner(c.options.FieldOwner), client.ForceOwnership)
	if err != nil {
		return nil, fmt.Errorf("applying the webhook configuration %s for hooks that %s: %w", c.options.Name, kind, err)
	}
	return u, nil
}

// toUnstructured converts an entry for server-side apply.
func toUnstructured(kind hookKind, e entry) (map[string]any, error) {
	if kind == mutating {
		return runtime.DefaultUnstructuredConverter.ToUnstructured(&e)
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(new(asValidating(e)))
}

// entriesOf returns the entries of a configuration.
func entriesOf(live client.Object) []entry {
	switch live := live.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		return live.Webhooks
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		out := make([]entry, len(live.Webhooks))
		for i, w := range live.Webhooks {
			out[i] = fromValidating(w)
		}
		return out
	default:
		return nil
	}
}

func isManagedBy(live client.Object, owner string) bool {
	for _, field := range live.GetManagedFields() {
		if field.Manager == owner {
			return true
		}
	}
	return false
}
