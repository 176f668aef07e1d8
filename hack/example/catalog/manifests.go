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

// peeringGroup is the API group of peering objects. The CRDs of the project define its kinds.
const peeringGroup = "kopf.dev"

// Objects returns the objects in a directory below config, or none if the directory does not exist.
func (e Example) Objects(folder string) ([]*unstructured.Unstructured, error) {
	return objects(filepath.Join(e.Folder, "config", folder))
}

// CRDs returns the CRDs of the example. If the example contains peering objects, the result includes the CRDs of peering.
func (e Example) CRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	found, err := e.Objects("crd")
	if err != nil {
		return nil, err
	}
	samples, err := e.Objects("samples")
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(samples, isPeering) {
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
			return nil, fmt.Errorf("%s: CRD %s: %w", e.Name, obj.GetName(), err)
		}
		crds = append(crds, crd)
	}
	return crds, nil
}

// IsPrerequisite reports whether an object must exist before the operators start: a peering object or a ring.
func IsPrerequisite(obj *unstructured.Unstructured) bool {
	return isPeering(obj) || obj.GetKind() == "ControllerRing"
}

func isPeering(obj *unstructured.Unstructured) bool {
	return obj.GroupVersionKind().Group == peeringGroup
}

// objects reads the files in a directory and its subdirectories, except for the files of kustomize.
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

// decode reads the documents in a file.
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
		case len(obj.Object) > 0: // a document may contain only comments
			all = append(all, obj)
		}
	}
}
