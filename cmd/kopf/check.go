package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/crdschema"
)

func newObjectsCheck() *cobra.Command {
	var which selection
	var form output
	var file string
	cmd := &cobra.Command{
		Use:   "check KIND [NAME...]",
		Short: "Find objects that do not fit the schema of their kind",
		Long: `Objects can be older than the schema of their kind. The API server then rejects their updates, and an operator with Go types from the schema
cannot decode and handle them.

This command validates the stored objects against the schema in the cluster, or with --crd against that of a file. Check the CustomResourceDefinition
of a new version before you deploy the version. The command fails if an object does not fit. It writes nothing.

It knows schemas, and no Go types. If a Go type is stricter than its schema, the operator itself must check the objects: see CheckObjects in package kopf.`,
		Example: `  # Check the objects against the schema in the cluster:
  kopf objects check databases.example.com -A
  # Before a new version is deployed:
  kopf objects check databases.example.com -A --crd config/crd/bases/example.com_databases.yaml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := form.check(); err != nil {
				return err
			}
			var check *checker
			total := 0
			unfit := []unfitObject{}
			err := which.each(cmd.Context(), args, func(ctx context.Context, c client.Client, obj *unstructured.Unstructured) (err error) {
				if check == nil {
					if check, err = newChecker(ctx, c, file, obj.GroupVersionKind()); err != nil {
						return err
					}
				}
				total++
				if one := check.object(obj); len(one.Problems) > 0 {
					unfit = append(unfit, one)
				}
				return nil
			})
			if printErr := form.write(cmd.OutOrStdout(), unfit, func() [][]string { return unfitRows(unfit) }); printErr != nil {
				return printErr
			}
			if err == nil && len(unfit) > 0 {
				err = fmt.Errorf("%d of %d objects do not fit the schema", len(unfit), total)
			}
			return err
		},
	}
	which.bind(cmd.Flags())
	form.bind(cmd.Flags())
	cmd.Flags().StringVar(&file, "crd", "", "file with the CustomResourceDefinition; without it, the one in the cluster is used")
	return cmd
}

// An unfitObject is an object that does not fit the schema.
type unfitObject struct {
	Namespace string         `json:"namespace,omitempty"`
	Name      string         `json:"name"`
	Problems  []unfitProblem `json:"problems"`
}

// An unfitProblem is a field that does not fit the schema.
type unfitProblem struct {
	Field   string `json:"field"`
	Problem string `json:"problem"`
}

func unfitRows(all []unfitObject) [][]string {
	rows := [][]string{{"NAMESPACE", "NAME", "FIELD", "PROBLEM"}}
	for _, obj := range all {
		for _, problem := range obj.Problems {
			rows = append(rows, []string{obj.Namespace, obj.Name, problem.Field, problem.Problem})
		}
	}
	return rows
}

// A checker validates objects against the schema of their kind.
type checker struct{ schema *crdschema.Schema }

// newChecker returns a checker for a kind. It reads the CustomResourceDefinition from a file, or from the cluster if the file has no name.
func newChecker(ctx context.Context, c client.Client, file string, gvk schema.GroupVersionKind) (*checker, error) {
	crds, err := readDefinitions(file)
	if err == nil && file == "" {
		crds, err = clusterDefinitions(ctx, c, gvk)
	}
	if err != nil {
		return nil, err
	}
	for _, crd := range crds {
		if crd.Spec.Group != gvk.Group || crd.Spec.Names.Kind != gvk.Kind {
			continue
		}
		i := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == gvk.Version })
		if i < 0 || crd.Spec.Versions[i].Schema == nil || crd.Spec.Versions[i].Schema.OpenAPIV3Schema == nil {
			return nil, fmt.Errorf("the CustomResourceDefinition %s has no schema for version %s, which the cluster prefers", crd.Name, gvk.Version)
		}
		schema, err := crdschema.New(crd.Spec.Versions[i].Schema.OpenAPIV3Schema)
		if err != nil {
			return nil, fmt.Errorf("the CustomResourceDefinition %s: %w", crd.Name, err)
		}
		return &checker{schema}, nil
	}
	if file == "" {
		return nil, fmt.Errorf("%s has no CustomResourceDefinition: only objects of custom kinds can be checked", gvk.GroupKind())
	}
	return nil, fmt.Errorf("the file %s has no CustomResourceDefinition of %s", file, gvk.GroupKind())
}

// readDefinitions returns the CustomResourceDefinitions in a file; none without a name.
func readDefinitions(file string) (crds []apiextensionsv1.CustomResourceDefinition, err error) {
	if file == "" {
		return nil, nil
	}
	reader, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("--crd: %w", err)
	}
	defer func() { _ = reader.Close() }()
	documents := yaml.NewYAMLOrJSONDecoder(reader, 4096)
	for {
		var crd apiextensionsv1.CustomResourceDefinition
		switch err := documents.Decode(&crd); {
		case errors.Is(err, io.EOF):
			return crds, nil
		case err != nil:
			return nil, fmt.Errorf("--crd: reading %s: %w", file, err)
		case crd.Kind == "CustomResourceDefinition":
			crds = append(crds, crd)
		}
	}
}

// clusterDefinitions returns the CustomResourceDefinition of a kind in the cluster.
func clusterDefinitions(ctx context.Context, c client.Client, gvk schema.GroupVersionKind) ([]apiextensionsv1.CustomResourceDefinition, error) {
	mapping, err := c.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	raw := &unstructured.Unstructured{}
	raw.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	err = c.Get(ctx, client.ObjectKey{Name: mapping.Resource.GroupResource().String()}, raw)
	switch {
	case apierrors.IsNotFound(err): // the kind is built in
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the CustomResourceDefinition, or pass a file with --crd: %w", err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, &crd); err != nil {
		return nil, fmt.Errorf("decode the CustomResourceDefinition: %w", err)
	}
	return []apiextensionsv1.CustomResourceDefinition{crd}, nil
}

// noField is the path of problems whose text contains the field, such as those of numbers outside of their format.
var noField = (*field.Path)(nil).String()

// object validates an object.
func (c *checker) object(obj *unstructured.Unstructured) unfitObject {
	out := unfitObject{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	content := obj.DeepCopy().Object
	c.schema.PruneAndDefault(content) // as the API server does when it reads an object
	for _, problem := range c.schema.Validate(content, "") {
		one := unfitProblem{problem.Field, problem.ErrorBody()}
		if one.Field == noField {
			one.Field = ""
		}
		out.Problems = append(out.Problems, one)
	}
	return out
}
