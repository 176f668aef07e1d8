package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// peeringGroup is of the kinds at whose objects operators meet. Their definitions are those of the project.
const peeringGroup = "kopf.dev"

// Objects are those in a folder below config, none if there is no such folder.
func (e Example) Objects(folder string) ([]*unstructured.Unstructured, error) {
	return objects(filepath.Join(e.Folder, "config", folder))
}

// CRDs are the definitions of the kinds that the example has, and of peerings if it has objects of these.
func (e Example) CRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	found, err := e.Objects("crd")
	if err != nil {
		return nil, err
	}
	samples, err := e.Objects("samples")
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(samples, IsPeering) {
		common, err := objects(filepath.Join(e.Folder, "..", "..", "config", "crd"))
		if err != nil {
			return nil, err
		}
		found = append(found, common...)
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, obj := range found {
		if obj.GetKind() != "CustomResourceDefinition" {
			continue
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, crd); err != nil {
			return nil, fmt.Errorf("%s: the definition %s: %w", e.Name, obj.GetName(), err)
		}
		crds = append(crds, crd)
	}
	return crds, nil
}

// IsPeering tells whether operators meet at this object: it has to be there before they are.
func IsPeering(obj *unstructured.Unstructured) bool {
	return obj.GroupVersionKind().Group == peeringGroup
}

// objects reads a folder and those in it, but for what kustomize is told there.
func objects(folder string) (all []*unstructured.Unstructured, err error) {
	if !isFolder(folder) {
		return nil, nil
	}
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		if err != nil || entry.IsDir() || filepath.Ext(name) != ".yaml" || strings.HasPrefix(name, "kustomiz") {
			return err
		}
		found, err := decode(path)
		all = append(all, found...)
		return err
	})
	return all, err
}

// decode reads the documents of a file.
func decode(file string) (all []*unstructured.Unstructured, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", file, err)
		case len(obj.Object) > 0: // there may be nothing but a comment before the first ---
			all = append(all, obj)
		}
	}
}
