package kinds

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/pkg/preview"
)

const (
	previewPage     = 500
	previewProblems = 100  // for each kind
	previewGroups   = 1000 // for each kind; later ones leave out what has changed
	previewExamples = 3    // for each group

	maxPreviewProblem = 1000 // bytes
)

// Preview returns what the operator would do with all objects if it started now.
func (r *Runtime) Preview(ctx context.Context, all []Kind, settings engine.Settings) *preview.Report {
	report := &preview.Report{}
	selected, err := r.selectedNamespaces(ctx)
	if err != nil {
		report.Notes = append(report.Notes, "The namespaces could not be listed, so objects of all namespaces are included: "+err.Error())
	}
	previews := make([]*kindPreview, len(all))
	for i, kind := range all {
		settings.Client, settings.APIReader, settings.Log = r.Manager.GetClient(), r.Manager.GetAPIReader(), r.Manager.GetLogger()
		previews[i] = &kindPreview{
			runtime: r, kind: kind, engine: engine.New(settings, kind.Kind), groups: map[string]int{}, namespaces: selected,
			Kind: preview.Kind{APIVersion: kind.GVK.GroupVersion().String(), Kind: kind.GVK.Kind},
		}
	}
	for _, p := range previews { // predicates of other kinds may read the indexes
		if len(p.kind.Indexes.IDs()) > 0 {
			p.each(ctx, func(obj client.Object) error { p.engine.Index(ctx, obj); return nil })
			p.Objects, p.Problems = 0, nil // the second pass finds them again
		}
	}
	for _, p := range previews {
		p.each(ctx, func(obj client.Object) error { return p.add(ctx, obj) })
		report.Kinds = append(report.Kinds, p.Kind)
	}
	return report
}

// selectedNamespaces returns the namespaces of WithNamespaces or WithNamespaceFunc, or nil without these options.
func (r *Runtime) selectedNamespaces(ctx context.Context) ([]string, error) {
	if r.Namespaces == nil {
		return nil, nil
	}
	if names := r.Namespaces.Exact(); len(names) > 0 {
		return names, nil
	}
	all := &corev1.NamespaceList{}
	if err := r.Manager.GetAPIReader().List(ctx, all); err != nil {
		return nil, err
	}
	names := []string{}
	for i := range all.Items {
		if r.Namespaces.Selects(&all.Items[i]) {
			names = append(names, all.Items[i].Name)
		}
	}
	return names, nil
}

type kindPreview struct {
	preview.Kind
	runtime    *Runtime
	kind       Kind
	engine     *engine.Engine
	groups     map[string]int // indexes of the groups by their content
	namespaces []string       // selected at run time; nil for those of the cache
}

// each calls a function for each object of the kind that the operator would watch.
func (p *kindPreview) each(ctx context.Context, do func(client.Object) error) {
	namespaces := p.runtime.CachedNamespaces(p.kind.GVK, p.kind.WhenServed)
	if isNamespaced, err := apiutil.IsObjectNamespaced(p.kind.New(), p.runtime.Manager.GetScheme(), p.runtime.Manager.GetRESTMapper()); err == nil && !isNamespaced {
		namespaces = nil
	} else if p.namespaces != nil {
		namespaces = p.namespaces
	}
	if namespaces == nil {
		namespaces = []string{metav1.NamespaceAll}
	}
	selector := client.ListOptions{}
	if selected := p.runtime.selectorOf(&p.kind.Kind); selected != nil && p.runtime.Ring == nil {
		selector = *selected
	}
	for _, namespace := range namespaces {
		pages := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			page := &unstructured.UnstructuredList{}
			page.SetGroupVersionKind(p.kind.GVK.GroupVersion().WithKind(p.kind.GVK.Kind + "List"))
			options := selector
			options.Namespace, options.Limit, options.Continue = namespace, opts.Limit, opts.Continue
			return page, p.runtime.Manager.GetAPIReader().List(ctx, page, &options)
		})
		pages.PageSize = previewPage
		err := pages.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
			one := item.(*unstructured.Unstructured)
			p.Objects++
			name := strings.TrimPrefix(one.GetNamespace()+"/"+one.GetName(), "/")
			obj, err := p.decode(one)
			if err == nil {
				err = guard.Catch("", func() error { return do(obj) })
			}
			if err != nil {
				p.addProblem(fmt.Sprintf("%s: %v", name, err))
			}
			return nil
		})
		if err != nil {
			p.addProblem(err.Error())
		}
	}
}

func (p *kindPreview) addProblem(text string) {
	switch n := len(p.Problems); {
	case n < previewProblems:
		p.Problems = append(p.Problems, guard.ShortenText(text, maxPreviewProblem))
	case n == previewProblems:
		p.Problems = append(p.Problems, "… and more")
	}
}

// decode converts an object to the kind's Go type.
func (p *kindPreview) decode(from *unstructured.Unstructured) (client.Object, error) {
	obj := p.engine.New()
	if _, untyped := obj.(*unstructured.Unstructured); untyped {
		return from, nil
	}
	text, err := json.Marshal(from.Object)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, obj); err != nil {
		return nil, fmt.Errorf("does not decode into %T: %w", obj, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(p.kind.GVK)
	return obj, nil
}

// add adds an object to the group of objects for which the operator would do the same.
func (p *kindPreview) add(ctx context.Context, obj client.Object) error {
	group, problems, err := p.engine.Preview(ctx, obj)
	if err != nil {
		return err
	}
	name := strings.TrimPrefix(obj.GetNamespace()+"/"+obj.GetName(), "/")
	for _, problem := range problems {
		p.addProblem(name + ": " + problem.Error())
	}
	content := fmt.Sprintf("%#v", group)
	i, known := p.groups[content]
	if !known && len(p.Groups) >= previewGroups && len(group.Changed) > 0 { // users choose the paths, for example those of labels
		group.Changed = []string{"…"}
		content = fmt.Sprintf("%#v", group)
		i, known = p.groups[content]
	}
	if !known {
		i = len(p.Groups)
		p.groups[content] = i
		group.Objects = 0
		p.Groups = append(p.Groups, group)
	}
	g := &p.Groups[i]
	if g.Objects++; len(g.Examples) < previewExamples {
		g.Examples = append(g.Examples, name)
	}
	return nil
}
