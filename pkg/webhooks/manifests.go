package webhooks

import (
	"errors"
	"fmt"
	"io"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// Manifests returns the webhook configurations for the hooks, for users who apply them with their own tools. Without hooks, it returns
// none. The entries have the CABundle of the ClientConfig. If that is empty, cert-manager or a server with [Injected] configurations must
// write the caBundle of the entries.
//
// Manifests derives regular plural names from the kinds, such as "databases" and "policies". For other plural names, use [Plural].
func Manifests(scheme *runtime.Scheme, o Options, hooks ...Hook) ([]client.Object, error) {
	if o.Configurations == Unmanaged {
		o.Configurations = Managed // printing has the same requirements as writing
	}
	o = o.withDefaults()
	all, err := prepareHooks(scheme, o, hooks)
	if err != nil {
		return nil, err
	}
	set := map[hookKind][]entry{}
	for _, n := range all {
		set[n.kind] = append(set[n.kind], newEntry(o, n, guessPlural(n), nil))
	}
	var out []client.Object
	for _, kind := range []hookKind{validating, mutating} {
		if len(set[kind]) > 0 {
			out = append(out, newConfiguration(kind, o, set[kind]))
		}
	}
	return out, nil
}

// WriteManifests writes the result of [Manifests] to w as YAML.
func WriteManifests(w io.Writer, scheme *runtime.Scheme, o Options, hooks ...Hook) error {
	objects, err := Manifests(scheme, o, hooks...)
	if err != nil {
		return err
	}
	for _, obj := range objects {
		text, err := yaml.Marshal(obj)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}

func guessPlural(n namedHook) string {
	if n.settings.plural != "" {
		return n.settings.plural
	}
	plural, _ := meta.UnsafeGuessKindToResource(n.gvk)
	return plural.Resource
}

// prepareHooks returns the hooks with their names, or all errors in the options and the hooks.
func prepareHooks(scheme *runtime.Scheme, o Options, hooks []Hook) ([]namedHook, error) {
	var found errorList
	found.addErr(o.check())
	hooks = slices.Clone(hooks)
	gvks, invalid := make([]schema.GroupVersionKind, len(hooks)), make([]bool, len(hooks))
	for i := range hooks {
		h := &hooks[i]
		var unknown error
		if h.obj != nil {
			gvks[i], unknown = h.gvk(scheme)
			h.schemeKind = gvks[i].Kind
		}
		if err := h.Check(); err != nil {
			found.addErr(err)
			invalid[i] = true
		} else if unknown != nil {
			found.addf("%s: %w", h.describe(), unknown)
			invalid[i] = true
		}
	}
	all, err := nameHooks(hooks, gvks, invalid)
	found.addErr(err)
	if validation.Subdomain(o.Name) == nil {
		for _, n := range all {
			if n.name == "" {
				continue // the hook is invalid or has no name of its own: its error is already in found
			}
			if err := checkEntryName(n.name + "." + nameSuffix(o.Name)); err != nil {
				found.addf("%s: %w", n.describe(), err)
			}
		}
	}
	if len(found) > 0 {
		return nil, errors.Join(found...)
	}
	return all, nil
}

func newConfiguration(kind hookKind, o Options, entries []entry) client.Object {
	objectMeta := metav1.ObjectMeta{Name: o.Name, Annotations: o.Annotations}
	typeMeta := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: kind}
	}
	if kind == mutating {
		return &admissionregistrationv1.MutatingWebhookConfiguration{
			TypeMeta: typeMeta("MutatingWebhookConfiguration"), ObjectMeta: objectMeta, Webhooks: entries,
		}
	}
	out := &admissionregistrationv1.ValidatingWebhookConfiguration{
		TypeMeta: typeMeta("ValidatingWebhookConfiguration"), ObjectMeta: objectMeta,
	}
	for _, e := range entries {
		out.Webhooks = append(out.Webhooks, asValidating(e))
	}
	return out
}
