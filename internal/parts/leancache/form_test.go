package leancache_test

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/leancache"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

const prefix = "kopf.example.com"

// formOf returns a form for a baseline.
func formOf(baseline progress.Baseline) *leancache.Form {
	stored := essence.WithDigestFallback(baseline)
	return &leancache.Form{Essence: essence.Builder{Cleaners: []essence.Cleaner{stored}}, Baseline: stored}
}

// handled returns a deployment whose stored baseline equals its essence.
func handled(t *testing.T, f *leancache.Form) *appsv1.Deployment {
	t.Helper()
	obj := &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "shop", Namespace: "default", UID: "1", ResourceVersion: "7", Labels: map[string]string{"tier": "gold"},
			Annotations: map[string]string{"note": "<kept>", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
		},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(3)), Paused: true},
	}
	f.Baseline.Store(obj, essenceOf(t, f, obj))
	return obj
}

func essenceOf(t *testing.T, f *leancache.Form, obj client.Object) []byte {
	t.Helper()
	content, err := patch.Content(obj)
	if err != nil {
		t.Fatal(err)
	}
	text, err := essence.Encode(f.Essence.Build(content))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func untyped(t *testing.T, obj client.Object) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

// TestForm shrinks objects at rest, and compares what becomes of them with the original.
func TestForm(t *testing.T) {
	baselines := map[string]progress.Baseline{
		"annotation": progress.AnnotationBaseline(prefix),
		"two keys":   progress.AnnotationBaseline("a-prefix-with-more-than-36-characters.example.com"),
		"several":    progress.MultiBaseline(progress.AnnotationBaseline(prefix), progress.AnnotationBaseline("")),
	}
	for name, baseline := range baselines {
		for _, isTyped := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, typed: %t", name, isTyped), func(t *testing.T) {
				f := formOf(baseline)
				var obj client.Object = handled(t, f)
				if !isTyped {
					obj = untyped(t, obj)
				}
				original := obj.DeepCopyObject().(client.Object)
				f.Shrink(obj)
				if !f.IsShrunk(obj) {
					t.Fatal("Shrink() has not shrunk an object at rest")
				}
				for key, text := range obj.GetAnnotations() {
					if strings.Contains(text, "replicas") {
						t.Errorf("after Shrink(), the annotation %s contains %s, want no text of the configuration", key, text)
					}
				}
				shrunk := obj.DeepCopyObject()
				f.Shrink(obj) // transformations must be idempotent
				if !reflect.DeepEqual(obj, shrunk) {
					t.Errorf("the second Shrink() changes the object to %v, want %v", obj, shrunk)
				}
				content, err := patch.Content(obj)
				if err != nil {
					t.Fatal(err)
				}
				before := runtime.DeepCopyJSON(content)
				whole, wholeContent, err := f.Whole(obj, content)
				if err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(whole, original) {
					t.Errorf("Whole() = %v, want the original %v", whole, original)
				}
				if want, _ := patch.Content(original); !reflect.DeepEqual(wholeContent, want) {
					t.Errorf("content from Whole() = %v, want %v", wholeContent, want)
				}
				if !reflect.DeepEqual(obj, shrunk) || !reflect.DeepEqual(content, before) {
					t.Error("Whole() has changed the cached object")
				}
				if err := f.SetWhole(obj); err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(obj, original) {
					t.Errorf("after SetWhole(): %v, want the original %v", obj, original)
				}
			})
		}
	}
}

// TestForm_SetWhole_SharedFields: objects from a cache without copies share their fields with it.
func TestForm_SetWhole_SharedFields(t *testing.T) {
	f := formOf(progress.AnnotationBaseline(prefix))
	for _, cached := range []client.Object{handled(t, f), untyped(t, handled(t, f))} {
		f.Shrink(cached)
		before := cached.DeepCopyObject()
		shared := patch.ShallowCopy(cached)
		if err := f.SetWhole(shared); err != nil {
			t.Fatal(err)
		}
		if f.IsShrunk(shared) {
			t.Errorf("after SetWhole(): annotations of %T = %v, want the whole baseline", shared, shared.GetAnnotations())
		}
		if !reflect.DeepEqual(cached, before) {
			t.Errorf("SetWhole() has changed the cached object to %v, want %v", cached, before)
		}
	}
}

// TestForm_KeepsOthers: an object whose baseline cannot be computed stays whole.
func TestForm_KeepsOthers(t *testing.T) {
	f := formOf(progress.AnnotationBaseline(prefix))
	key := prefix + "/last-handled-configuration"
	tests := map[string]func(obj *appsv1.Deployment){
		"edited":      func(obj *appsv1.Deployment) { obj.Spec.Replicas = new(int32(4)) },
		"not handled": func(obj *appsv1.Deployment) { delete(obj.Annotations, key) },
		"other text": func(obj *appsv1.Deployment) {
			obj.Annotations[key] = strings.ReplaceAll(obj.Annotations[key], `":`, `": `)
		},
		"without newline": func(obj *appsv1.Deployment) { obj.Annotations[key] = strings.TrimSpace(obj.Annotations[key]) },
		"unreadable":      func(obj *appsv1.Deployment) { obj.Annotations[key] = "{" },
		"only a digest":   func(obj *appsv1.Deployment) { f.Baseline.Store(obj, []byte(`{"kopf-runtime.dev/digest":"abc"}`)) },
		"no annotations":  func(obj *appsv1.Deployment) { obj.Annotations = nil },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			obj := handled(t, f)
			change(obj)
			before := maps.Clone(obj.Annotations)
			f.Shrink(obj)
			if !maps.Equal(obj.Annotations, before) {
				t.Errorf("annotations after Shrink() = %v, want %v", obj.Annotations, before)
			}
			whole, _, err := f.Whole(obj, nil)
			if err != nil {
				t.Fatal(err)
			}
			if whole != client.Object(obj) {
				t.Errorf("Whole() = %v, want the object itself", whole)
			}
		})
	}
}

// TestForm_DigestOfAnother: if a digest was written to an object by mistake and the object was edited, the digest stays, because it shows
// that there was an edit.
func TestForm_DigestOfAnother(t *testing.T) {
	f := formOf(progress.AnnotationBaseline(prefix))
	obj := handled(t, f)
	f.Shrink(obj)
	obj.Spec.Replicas = new(int32(4))
	whole, _, err := f.Whole(obj, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !f.IsShrunk(whole) {
		t.Errorf("Whole() of an edited object with a digest: annotations = %v, want the digest", whole.GetAnnotations())
	}
}

func TestForm_Nil(t *testing.T) {
	var f *leancache.Form
	obj := handled(t, formOf(progress.AnnotationBaseline(prefix)))
	before := obj.DeepCopy()
	f.Shrink(obj)
	whole, _, err := f.Whole(obj, nil)
	if err != nil || whole != client.Object(obj) || !reflect.DeepEqual(obj, before) {
		t.Errorf("a nil form has changed the object: %v, %v, want it unchanged", whole, err)
	}
}
