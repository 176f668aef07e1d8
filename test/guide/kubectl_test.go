package guide

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kubectl does what the pages have their readers do with it, so that the tests do not need it. Objects are in the namespace default.
type kubectl struct {
	client.Client
	folder string
	kinds  map[string]schema.GroupVersionKind // by the names that the page uses
}

func (k kubectl) run(ctx context.Context, words []string) error {
	switch {
	case len(words) == 3 && words[0] == "apply" && words[1] == "-f":
		return k.apply(ctx, words[2])
	case len(words) == 2 && words[0] == "get":
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(k.kinds[words[1]])
		return k.List(ctx, list, client.InNamespace("default"))
	case len(words) == 6 && words[0] == "patch" && words[3] == "--type=merge" && words[4] == "-p":
		return k.Patch(ctx, k.object(words), client.RawPatch("application/merge-patch+json", []byte(strings.Trim(words[5], "'"))))
	case len(words) == 3 && words[0] == "delete":
		return k.delete(ctx, k.object(words))
	}
	return fmt.Errorf("kubectl %q: the test does not know it: teach it", words)
}

func (k kubectl) object(words []string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(k.kinds[words[1]])
	obj.SetNamespace("default")
	obj.SetName(words[2])
	return obj
}

// delete waits until the object is gone, as kubectl does.
func (k kubectl) delete(ctx context.Context, obj *unstructured.Unstructured) error {
	if err := k.Delete(ctx, obj); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		err := k.Get(ctx, client.ObjectKeyFromObject(obj), obj)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

func (k kubectl) apply(ctx context.Context, folder string) error {
	files, err := filepath.Glob(filepath.Join(k.folder, folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		return errors.Join(err, fmt.Errorf("there are no files in %s", folder))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		obj := &unstructured.Unstructured{}
		if err := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096).Decode(obj); err != nil {
			return err
		}
		if err := k.Create(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}
