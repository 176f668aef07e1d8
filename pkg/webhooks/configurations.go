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

// configurations writes the two webhook configurations, by server-side apply: what it does not name, it
// does not touch.
type configurations struct {
	options Options
	client  client.Client // straight to the API server
	now     func() time.Time

	last    map[hookKind]application
	missing map[hookKind][]string // entries that have not been there lately, when they are somebody else's
}

// An application is what was written.
type application struct {
	entries []entry
	at      time.Time
}

// rivalry is how long somebody else's changes of our entries stand at least: two that disagree shall not
// keep the API server busy.
const rivalry = 5 * time.Second

// put sees to it that the configuration of the kind has the entries. It reports whether it has them now;
// if not, when to try again at the latest.
func (c *configurations) put(ctx context.Context, kind hookKind, entries []entry) (complete bool, again time.Duration, err error) {
	if c.options.Configurations == Unmanaged {
		return true, 0, nil
	}
	live := configurationOf(kind, Options{Name: c.options.Name}, nil)
	err = c.client.Get(ctx, client.ObjectKeyFromObject(live), live)
	exists := err == nil
	if err != nil && !apierrors.IsNotFound(err) {
		return false, 0, err
	}
	if c.options.Configurations == Injected {
		return c.inject(ctx, kind, live, exists, entries)
	}
	_, written := c.last[kind]
	if len(entries) == 0 {
		if !exists || !ownedBy(live, c.options.FieldOwner) {
			return true, 0, nil // never created empty
		}
		return true, 0, c.clear(ctx, kind)
	}
	if written && exists && c.holds(live, entries) {
		return true, 0, nil
	}
	if pause := c.contested(ctx, kind, entries); pause > 0 {
		return false, pause, nil
	}
	desired := make([]any, len(entries))
	for i, e := range entries {
		if desired[i], err = document(kind, e); err != nil {
			return false, 0, err
		}
	}
	if _, err := c.apply(ctx, kind, desired); err != nil {
		return false, 0, err
	}
	c.last[kind] = application{entries: entries, at: c.now()}
	log.FromContext(ctx).Info("Webhook configuration written", "kind", kind, "configuration", c.options.Name, "entries", len(entries))
	return true, 0, nil
}

// contested reports for how long others have their way: what is to be written was written before, so somebody has changed it.
func (c *configurations) contested(ctx context.Context, kind hookKind, entries []entry) time.Duration {
	last, written := c.last[kind]
	if !written || !equality.Semantic.DeepEqual(last.entries, entries) {
		return 0
	}
	if since := c.now().Sub(last.at); since < rivalry {
		return rivalry - since
	}
	log.FromContext(ctx).Info("Somebody has changed our entries of the webhook configuration", "kind", kind, "configuration", c.options.Name)
	return 0
}

// forget makes the next put write in any case.
func (c *configurations) forget(kind hookKind) { delete(c.last, kind) }

// holds reports whether the entries stand in the configuration as they should.
func (c *configurations) holds(live client.Object, entries []entry) bool {
	is := map[string]entry{}
	for _, e := range entriesOf(live) {
		is[e.Name] = e
	}
	for _, wanted := range entries {
		e, there := is[wanted.Name]
		if len(wanted.ClientConfig.CABundle) == 0 {
			e.ClientConfig.CABundle = wanted.ClientConfig.CABundle // it is somebody else's business
		}
		if e.ReinvocationPolicy == nil {
			e.ReinvocationPolicy = wanted.ReinvocationPolicy // validating ones have none
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

// inject writes the caBundle into the entries that are there, and nothing else.
func (c *configurations) inject(ctx context.Context, kind hookKind, live client.Object, exists bool, entries []entry) (bool, time.Duration, error) {
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
			log.FromContext(ctx).Info("Webhooks are not configured: apply the manifests that WriteManifests prints",
				"kind", kind, "handlers", missing, "configuration", c.options.Name)
		}
	}
	if stale {
		if pause := c.contested(ctx, kind, present); pause > 0 {
			return false, pause, nil
		}
		if _, err := c.apply(ctx, kind, desired); err != nil {
			return false, 0, err
		}
		c.last[kind] = application{entries: present, at: c.now()}
	}
	if len(missing) > 0 {
		return false, lastRetry, nil // they are seen when they come; this is for a watch that is not allowed any more
	}
	return true, 0, nil
}

// clear takes our entries away, and the configuration, too, if it has no others.
func (c *configurations) clear(ctx context.Context, kind hookKind) error {
	left, err := c.apply(ctx, kind, nil)
	if err != nil {
		return err
	}
	delete(c.last, kind)
	if entries, _, _ := unstructured.NestedSlice(left.Object, "webhooks"); len(entries) > 0 {
		return nil
	}
	uid, version := left.GetUID(), left.GetResourceVersion()
	err = c.client.Delete(ctx, left, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if apierrors.IsConflict(err) {
		return nil // somebody else has put something there
	}
	return client.IgnoreNotFound(err)
}

func (c *configurations) apply(ctx context.Context, kind hookKind, entries []any) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(configurationOf(kind, c.options, nil).GetObjectKind().GroupVersionKind())
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
		return nil, fmt.Errorf("the configuration %s of hooks that %s cannot be written: %w", c.options.Name, kind, err)
	}
	return u, nil
}

// document is an entry as it is applied: all that it says, and nothing else.
func document(kind hookKind, e entry) (map[string]any, error) {
	if kind == mutating {
		return runtime.DefaultUnstructuredConverter.ToUnstructured(&e)
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(new(asValidating(e)))
}

// entriesOf are the entries of a configuration.
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

func ownedBy(live client.Object, owner string) bool {
	for _, field := range live.GetManagedFields() {
		if field.Manager == owner {
			return true
		}
	}
	return false
}
