package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize is the maximum number of objects in a list request.
const pageSize = 500

// selection contains the flags that select objects, as in kubectl.
type selection struct {
	cluster
	namespace string
	all       bool
	selector  string
}

func (s *selection) bind(fs *pflag.FlagSet) {
	s.cluster.bind(fs)
	fs.StringVarP(&s.namespace, "namespace", "n", "", "namespace of the objects (default: the namespace of the current kubeconfig context)")
	fs.BoolVarP(&s.all, "all-namespaces", "A", false, "select objects in all namespaces")
	fs.StringVarP(&s.selector, "selector", "l", "", "label selector, such as tier=gold")
}

// A target is the result of a selection: a kind, a namespace and a label selector. The namespace is empty for all namespaces and for cluster-scoped kinds.
type target struct {
	config    *rest.Config
	mapping   *meta.RESTMapping
	c         client.WithWatch
	namespace string
	labels    labels.Selector
}

// open checks the flags and finds the kind that the first argument names. The other arguments are names of objects.
func (s *selection) open(args []string) (*target, error) {
	named := len(args) > 1
	switch {
	case s.all && s.namespace != "":
		return nil, errors.New("--all-namespaces and --namespace are mutually exclusive: remove one")
	case s.all && named:
		return nil, errors.New("--all-namespaces and names are mutually exclusive: use --namespace")
	case s.selector != "" && named:
		return nil, errors.New("--selector and names are mutually exclusive: remove one")
	}
	selector, err := labels.Parse(s.selector)
	if err != nil {
		return nil, fmt.Errorf("--selector: %w", err)
	}
	loader := s.config()
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, accessError(err)
	}
	config.QPS = -1 // the API server limits the requests itself (API Priority and Fairness)
	mapping, c, err := connect(config, args[0])
	if err != nil {
		return nil, err
	}
	namespace := s.namespace
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		if namespace != "" {
			return nil, fmt.Errorf("%s have no namespace: remove --namespace", mapping.Resource.Resource)
		}
	} else if namespace == "" && !s.all {
		if namespace, _, err = loader.Namespace(); err != nil {
			return nil, accessError(err)
		}
	}
	return &target{config: config, mapping: mapping, c: c, namespace: namespace, labels: selector}, nil
}

// each calls a function for each selected object. It continues after errors and returns all of them.
func (s *selection) each(ctx context.Context, args []string, do func(context.Context, client.Client, *unstructured.Unstructured) error) error {
	t, err := s.open(args)
	if err != nil {
		return err
	}
	return t.each(ctx, args[1:], do)
}

// each calls a function for the objects with the given names or, without names, for all objects of the target.
func (t *target) each(ctx context.Context, names []string, do func(context.Context, client.Client, *unstructured.Unstructured) error) error {
	run := runner{c: t.c, gvk: t.mapping.GroupVersionKind, do: do}
	if len(names) > 0 {
		return run.visitNamed(ctx, t.namespace, names)
	}
	return run.visitListed(ctx, &client.ListOptions{Namespace: t.namespace, LabelSelector: t.labels, Limit: pageSize})
}

// connect finds a kind by any of the names that kubectl accepts: databases, database, Database, databases.example.com, databases.v1.example.com.
func connect(config *rest.Config, kind string) (*meta.RESTMapping, client.WithWatch, error) {
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	groups, err := restmapper.GetAPIGroupResources(disco)
	if err != nil {
		return nil, nil, fmt.Errorf("list the kinds of the API server: %w", err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	mapping, err := findMapping(mapper, kind)
	if err != nil {
		return nil, nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Mapper: mapper})
	return mapping, c, err
}

func findMapping(mapper meta.RESTMapper, kind string) (*meta.RESTMapping, error) {
	full, partial := schema.ParseResourceArg(strings.ToLower(kind))
	var gvk schema.GroupVersionKind
	err := error(&meta.NoResourceMatchError{})
	if full != nil {
		gvk, err = mapper.KindFor(*full)
	}
	if err != nil {
		gvk, err = mapper.KindFor(partial.WithVersion(""))
	}
	switch {
	case meta.IsNoMatchError(err):
		return nil, fmt.Errorf("the API server has no kind %q: use a name as in kubectl, such as databases.example.com", kind)
	case err != nil:
		return nil, err
	}
	return mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
}

// A runner calls a function for objects of one kind.
type runner struct {
	c   client.Client
	gvk schema.GroupVersionKind
	do  func(context.Context, client.Client, *unstructured.Unstructured) error
}

func (r runner) visitNamed(ctx context.Context, namespace string, names []string) error {
	var problems []error
	for _, name := range names {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(r.gvk)
		err := r.c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj)
		if err == nil {
			err = r.do(ctx, r.c, obj)
		}
		problems = append(problems, withObject(err, namespace, name))
	}
	return errors.Join(problems...)
}

func (r runner) visitListed(ctx context.Context, options *client.ListOptions) error {
	var problems []error
	for {
		page := &unstructured.UnstructuredList{}
		page.SetGroupVersionKind(r.gvk.GroupVersion().WithKind(r.gvk.Kind + "List"))
		if err := r.c.List(ctx, page, options); err != nil {
			return errors.Join(append(problems, err)...)
		}
		for i := range page.Items {
			obj := &page.Items[i]
			problems = append(problems, withObject(r.do(ctx, r.c, obj), obj.GetNamespace(), obj.GetName()))
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return errors.Join(problems...)
		}
	}
}

func withObject(err error, namespace, name string) error {
	if err == nil || apierrors.IsNotFound(err) && namespace == "" {
		return err
	}
	return fmt.Errorf("%s: %w", strings.TrimPrefix(namespace+"/"+name, "/"), err)
}
