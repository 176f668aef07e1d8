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
)

// Manifests are the webhook configurations for the hooks, for those who apply them on their own; there is none
// without hooks. The caBundle is that of the ClientConfig: leave it to cert-manager, or to a server whose
// Configurations are Injected.
//
// Plurals of kinds are guessed as controller-gen does it; [Plural] tells others.
func Manifests(scheme *runtime.Scheme, o Options, hooks ...Hook) ([]client.Object, error) {
	if o.Configurations == Unmanaged {
		o.Configurations = Managed // what it takes to write them is what it takes to print them
	}
	o = o.withDefaults()
	all, err := prepare(scheme, o, hooks)
	if err != nil {
		return nil, err
	}
	set := map[hookKind][]entry{}
	for _, n := range all {
		set[n.kind] = append(set[n.kind], entryOf(o, n, guessPlural(n), nil))
	}
	var out []client.Object
	for _, kind := range []hookKind{validating, mutating} {
		if len(set[kind]) > 0 {
			out = append(out, configurationOf(kind, o, set[kind]))
		}
	}
	return out, nil
}

// WriteManifests prints [Manifests] as YAML.
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

func guessPlural(n named) string {
	if n.settings.plural != "" {
		return n.settings.plural
	}
	plural, _ := meta.UnsafeGuessKindToResource(n.gvk)
	return plural.Resource
}

// prepare tells all that is wrong with the options and the hooks, or gives the hooks their names.
func prepare(scheme *runtime.Scheme, o Options, hooks []Hook) ([]named, error) {
	var found problems
	found.addErr(o.check())
	hooks = slices.Clone(hooks)
	gvks := make([]schema.GroupVersionKind, len(hooks))
	for i := range hooks {
		h := &hooks[i]
		var unknown error
		if h.obj != nil {
			gvks[i], unknown = h.gvk(scheme)
			h.known = gvks[i].Kind
		}
		if err := h.Check(); err != nil {
			found.addErr(err)
		} else if unknown != nil {
			found.addf("%s: %w", h.where(), unknown)
		}
	}
	if len(found) > 0 {
		return nil, errors.Join(found...)
	}
	all, err := nameAll(hooks, gvks)
	if err != nil {
		return nil, err
	}
	if o.Name != "" {
		for _, n := range all {
			if err := checkName(n.name + "." + domain(o.Name)); err != nil {
				found.addf("%s: %w", n.where(), err)
			}
		}
	}
	return all, errors.Join(found...)
}

func configurationOf(kind hookKind, o Options, entries []entry) client.Object {
	about := metav1.ObjectMeta{Name: o.Name, Annotations: o.Annotations}
	of := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: kind}
	}
	if kind == mutating {
		return &admissionregistrationv1.MutatingWebhookConfiguration{
			TypeMeta: of("MutatingWebhookConfiguration"), ObjectMeta: about, Webhooks: entries,
		}
	}
	out := &admissionregistrationv1.ValidatingWebhookConfiguration{
		TypeMeta: of("ValidatingWebhookConfiguration"), ObjectMeta: about,
	}
	for _, e := range entries {
		out.Webhooks = append(out.Webhooks, asValidating(e))
	}
	return out
}
